package pluginlock

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/versioning"
)

const (
	// FileName is the lock's name in a plugin directory.
	FileName = "plugins.lock"

	apiVersion = "cleat.dev/v1"

	// advice ends the sentences of what differs from a lock.
	advice = `if that is what you want to run, write the lock again with "cleat plugin lock"`
)

// Lock is the content of a plugins.lock. It is safe for concurrent reading.
type Lock struct {
	Plugins []Plugin // sorted by Path, each once
}

// Sort sorts the plugins by path.
func (l *Lock) Sort() {
	slices.SortFunc(l.Plugins, func(a, b Plugin) int { return cmp.Compare(a.Path, b.Path) })
}

// Plugin is one binary.
type Plugin struct {
	// Path is relative to the plugin directory: with slashes, clean and without "..".
	Path string `yaml:"path" json:"path"`
	// SHA256 is the sum of the content, 64 hexadecimal digits in lower case.
	SHA256 string `yaml:"sha256" json:"sha256"`
	// Provides are the plugins that the binary lists, sorted, each once. nil, which no file has, allows any list.
	Provides []Provided `yaml:"provides" json:"provides"`
}

// Provided is one implementation in a binary.
type Provided struct {
	Kind    string `yaml:"kind" json:"kind"`       // "BackupItemAction", whatever the version
	Version int    `yaml:"version" json:"version"` // 1 or more
	Name    string `yaml:"name" json:"name"`       // "example.io/mover"
}

// String returns "BackupItemActionV2 example.io/mover".
func (p Provided) String() string { return hostapi.WireKind(p.Kind, p.Version) + " " + p.Name }

func (p Provided) compare(q Provided) int {
	return cmp.Or(cmp.Compare(p.Kind, q.Kind), cmp.Compare(p.Version, q.Version), cmp.Compare(p.Name, q.Name))
}

// Provides returns the plugins that a process lists in the form of a lock: sorted, each once.
func Provides(listed []versioning.Listed) []Provided {
	provides := make([]Provided, 0, len(listed))
	for _, line := range listed {
		kind, version := hostapi.SplitWireKind(line.Kind)
		provides = append(provides, Provided{Kind: kind, Version: version, Name: line.Name})
	}
	slices.SortFunc(provides, Provided.compare)
	return slices.Compact(provides)
}

// Sum returns the SHA-256 sum of what r holds, as a lock has it.
func Sum(r io.Reader) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		return "", fmt.Errorf("compute the sha256 sum: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// SumFile returns the sum of the file that path leads to now.
func SumFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("compute the sha256 sum: %w", err)
	}
	defer file.Close()
	return Sum(file)
}

// Plugin returns the binary with this path, relative to the plugin directory and with slashes.
func (l *Lock) Plugin(relative string) (Plugin, bool) {
	at, found := slices.BinarySearchFunc(l.Plugins, relative,
		func(p Plugin, path string) int { return cmp.Compare(p.Path, path) })
	if !found {
		return Plugin{}, false
	}
	return l.Plugins[at], true
}

// Check returns an error if a binary must not run, because the lock has no such path or another sum. The error has the
// remedy.
func (l *Lock) Check(relative, sum string) error {
	plugin, found := l.Plugin(relative)
	switch {
	case !found:
		return fmt.Errorf("it is not in the lock; %s", advice)
	case plugin.SHA256 != sum:
		return fmt.Errorf("its sha256 sum is %s, the lock has %s: the file has changed; %s", sum, plugin.SHA256, advice)
	}
	return nil
}

// CheckProvides returns an error if the plugins that a process lists differ from the lock. The error has the remedy.
func (p Plugin) CheckProvides(listed []versioning.Listed) error {
	if p.Provides == nil {
		return nil
	}
	got := Provides(listed)
	var differences []string
	if missing := without(p.Provides, got); len(missing) > 0 {
		differences = append(differences, "it does not provide "+joined(missing))
	}
	if more := without(got, p.Provides); len(more) > 0 {
		differences = append(differences, "it provides "+joined(more)+", which the lock does not have")
	}
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("%s; %s", strings.Join(differences, " and "), advice)
}

// Missing returns the binaries of the lock that are not among those found.
func (l *Lock) Missing(found []string) []Plugin {
	var missing []Plugin
	for _, plugin := range l.Plugins {
		if !slices.Contains(found, plugin.Path) {
			missing = append(missing, plugin)
		}
	}
	return missing
}

// MissingReason is shown for a binary that is in the lock and not in the directory.
const MissingReason = `it is in the lock, but there is no such file; put it there, or write the lock again with "cleat plugin lock"`

// without returns what of all is not in others.
func without(all, others []Provided) []Provided {
	return slices.DeleteFunc(slices.Clone(all), func(p Provided) bool { return slices.Contains(others, p) })
}

func joined(all []Provided) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

// With returns the lock with other binaries, which replace those with the same paths.
func (l *Lock) With(plugins []Plugin) *Lock {
	all := slices.DeleteFunc(slices.Clone(l.Plugins), func(p Plugin) bool {
		return slices.ContainsFunc(plugins, func(other Plugin) bool { return other.Path == p.Path })
	})
	with := &Lock{Plugins: append(all, plugins...)}
	with.Sort()
	return with
}
