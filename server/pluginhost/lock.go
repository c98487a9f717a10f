package pluginhost

import (
	"fmt"

	"github.com/cleat-dev/cleat/server/pluginlock"
)

// Lock is the one in force: Config.Lock, or what its file has said since. nil is none.
func (h *Host) Lock() *pluginlock.Lock {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trust.lock
}

// Sum is the SHA-256 sum of the plugin binary at command, an Entry's: of the file that was opened when it was found and
// that runs, whatever is at the path by now. It reads the whole file.
func (h *Host) Sum(command string) (string, error) {
	for _, r := range h.now().catalog.rows {
		if b := r.source.binary; r.Command == command && b != nil {
			return b.Sum()
		}
	}
	return "", fmt.Errorf("%s is no plugin binary that could be opened", command)
}
