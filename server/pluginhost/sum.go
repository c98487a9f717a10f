package pluginhost

import (
	"fmt"
	"io"

	"github.com/cleat-dev/cleat/server/pluginlock"
)

// Sum is the SHA-256 sum of the plugin binary at command, an Entry's: of the file that was opened when it was found and
// that runs, whatever is at the path by now. It reads the whole file.
func (h *Host) Sum(command string) (string, error) {
	for _, r := range h.now().catalog.rows {
		if b := r.source.launch.binary; r.Command == command && b != nil {
			sum, err := pluginlock.Sum(io.NewSectionReader(b.file, 0, b.was.size))
			if err != nil {
				return "", fmt.Errorf("%s: %w", command, err)
			}
			return sum, nil
		}
	}
	return "", fmt.Errorf("%s is no plugin binary that could be opened", command)
}
