package process

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// inputsPause is the time between two looks at Inputs.
const inputsPause = time.Second

// currentData is the link in a volume of a Secret, a ConfigMap or projected tokens which the kubelet lets lead to another
// directory when the content changes.
const currentData = "..data"

// Inputs are files that programs read once, when they start or use them first: credentials, certificates, tokens. When
// their content has changed, programs that have read it are started anew. It is safe for concurrent use.
type Inputs struct {
	version atomic.Int64

	mu     sync.Mutex
	paths  map[string]bool
	accept map[string]Identity // the state of the version, by path
	seen   map[string]Identity // at the last look
}

// NewInputs returns the files that are mounted from Secrets, ConfigMaps and projected tokens, and those which variables
// ("NAME=value") name by their absolute paths.
func NewInputs(variables []string) *Inputs {
	i := &Inputs{paths: map[string]bool{}}
	for _, mounted := range mountPoints() {
		if link := filepath.Join(mounted, currentData); isLink(link) {
			i.paths[link] = true
		}
	}
	for _, variable := range variables {
		_, value, _ := strings.Cut(variable, "=")
		i.add(value)
	}
	i.accept = i.look()
	i.seen = i.accept
	return i
}

// Add adds the files that are named by absolute paths among the values of a configuration.
func (i *Inputs) Add(config map[string]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, value := range config {
		if i.add(value) {
			i.accept[value] = identify(value)
		}
	}
}

// add adds a value if it is the absolute path of a file. The caller holds mu.
func (i *Inputs) add(value string) bool {
	if !filepath.IsAbs(value) || strings.ContainsAny(value, "\n\x00") || i.paths[value] {
		return false
	}
	if info, err := os.Stat(value); err != nil || !info.Mode().IsRegular() {
		return false
	}
	i.paths[value] = true
	return true
}

// Version returns a number that changes when the content of a file has changed.
func (i *Inputs) Version() int64 {
	if i == nil {
		return 0
	}
	return i.version.Load()
}

// Watch looks at the files until ctx ends, and calls changed after each new version.
func (i *Inputs) Watch(ctx context.Context, changed func()) {
	ticker := time.NewTicker(inputsPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if i.lookAgain() {
			changed()
		}
	}
}

// lookAgain looks at the files and reports whether there is a new version. A file that is being written makes none
// before it rests.
func (i *Inputs) lookAgain() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.look()
	rests := maps.Equal(now, i.seen)
	i.seen = now
	if !rests || maps.Equal(now, i.accept) {
		return false
	}
	i.accept = now
	i.version.Add(1)
	return true
}

// look returns the state of all files. The caller holds mu.
func (i *Inputs) look() map[string]Identity {
	state := make(map[string]Identity, len(i.paths))
	for path := range i.paths {
		state[path] = identify(path)
	}
	return state
}

// identify returns the identity of the content of a path, which is that of the directory for the link of a volume. It
// is zero for a file that is not there.
func identify(path string) Identity {
	info, err := os.Stat(path)
	if err != nil {
		return Identity{}
	}
	identity := IdentityOf(info)
	identity.changed = 0
	return identity
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == os.ModeSymlink
}

// mountPoints returns the directories and files at which this process has something mounted.
func mountPoints() []string {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // not Linux, where no kubelet mounts anything
	}
	var points []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, octal.Replace(fields[4]))
		}
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// octal decodes the characters that the kernel escapes in its table of mounts.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
