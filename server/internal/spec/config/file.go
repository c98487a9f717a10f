package config

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
)

// APIVersion is the version of the file that ReadFile reads.
const APIVersion = "cleat.dev/v1"

// File is the content of the file that --config names. Its zero value is a server without such a file. A field that the
// file does not set is zero; the code that uses the field has the default.
//
// A new key is a new field here and a property in file.schema.json, which defines the values of the key.
type File struct {
	APIVersion   string       `yaml:"apiVersion"`
	Backups      Backups      `yaml:"backups"`
	Maintenance  Maintenance  `yaml:"maintenance"`
	NodeAgent    NodeAgent    `yaml:"nodeAgent"`
	Operations   Operations   `yaml:"operations"`
	Plugins      Plugins      `yaml:"plugins"`
	Restores     Restores     `yaml:"restores"`
	Tracing      Tracing      `yaml:"tracing"`
	Trust        Trust        `yaml:"trust"`
	Verification Verification `yaml:"verification"`

	root Object // the whole file
}

// Backups is how backups are queued and described.
type Backups struct {
	Concurrent int    `yaml:"concurrent"`
	Attempts   int    `yaml:"attempts"`
	Admission  Policy `yaml:"admission"`
	// ManifestWriters are the writers that all describe each backup. Nil means the built-in writer, and an empty list
	// means none.
	ManifestWriters []ManifestWriter `yaml:"manifestWriters"`
	// References are fields that name other objects, in addition to the built-in table.
	References []reference.Row `yaml:"references"`
	Signing    Signing         `yaml:"signing"`
}

// Restores is how restores are run.
type Restores struct {
	Concurrent int `yaml:"concurrent"`
	Attempts   int `yaml:"attempts"`
	// RequireSignature refuses backups without a signature of an accepted key.
	RequireSignature bool `yaml:"requireSignature"`
	// Rehearsals is how backups are rehearsed.
	Rehearsals Rehearsals `yaml:"rehearsals"`
}

// Maintenance is how repositories are maintained.
type Maintenance struct {
	Concurrent int      `yaml:"concurrent"` // repositories at once; 0 for the default
	Timeout    Duration `yaml:"timeout"`    // of one maintenance; 0 for the default
	// Patience is how long maintenance beside which no load can be moved waits for a moment without loads, before loads
	// wait for it, and then for those that are moved; 0 for the default.
	Patience Duration `yaml:"patience"`
}

// Operations is how long the asynchronous operations of plugins may take.
type Operations struct {
	Timeout      Duration                   `yaml:"timeout"`
	StallTimeout Duration                   `yaml:"stallTimeout"`
	CancelGrace  Duration                   `yaml:"cancelGrace"`
	Plugins      map[string]OperationLimits `yaml:"plugins"` // by the names of the actions
}

// OperationLimits bound an operation. Zero means the limit that the author of its action declares, and None means no
// limit.
type OperationLimits struct {
	Timeout      Duration `yaml:"timeout"`      // a ceiling for spec.itemOperationTimeout
	StallTimeout Duration `yaml:"stallTimeout"` // without progress
	CancelGrace  Duration `yaml:"cancelGrace"`  // from its cancellation to its end
}

// Of returns the limits for the operations of an action.
func (o Operations) Of(action string) OperationLimits {
	limits := o.Plugins[action]
	limits.Timeout = cmp.Or(limits.Timeout, o.Timeout)
	limits.StallTimeout = cmp.Or(limits.StallTimeout, o.StallTimeout)
	limits.CancelGrace = cmp.Or(limits.CancelGrace, o.CancelGrace)
	return limits
}

// NodeAgent is how loads on nodes are held back.
type NodeAgent struct {
	Soothing Policy `yaml:"soothing"`
}

// Policy is a plugin that decides something, and what happens when it cannot decide.
type Policy struct {
	Plugin        string   `yaml:"plugin"` // empty when nothing was set
	Deadline      Duration `yaml:"deadline"`
	FailurePolicy string   `yaml:"failurePolicy"`
	Config        Object   `yaml:"-"`
}

// ManifestWriter is a plugin that describes backups. It has the fields of Policy, so that one can be converted to the
// other.
type ManifestWriter struct {
	Plugin        string   `yaml:"plugin"`
	Deadline      Duration `yaml:"deadline"` // without progress
	FailurePolicy string   `yaml:"failurePolicy"`
	Config        Object   `yaml:"-"`
}

// The default policies and the default manifest writer. The policies also replace policies that fail with failurePolicy
// UseBuiltIn.
const (
	DefaultAdmission      = "cleat.dev/namespace-overlap"
	DefaultSoothing       = "cleat.dev/prepare-queue"
	DefaultManifestWriter = "cleat.dev/manifest"
)

// The failure policies.
const (
	Hold       = "Hold"       // nothing is decided until the plugin can decide
	UseBuiltIn = "UseBuiltIn" // the built-in policy of the kind decides
	Warn       = "Warn"       // the backup has a warning
	Fail       = "Fail"       // the backup has an error
)

// LockRequired is the value of Plugins.Lock that requires a lock file at its usual path.
const LockRequired = "required"

// Plugins is how plugins are found and run.
type Plugins struct {
	Directory       string         `yaml:"directory"`
	Lock            string         `yaml:"lock"` // a path, or LockRequired
	Order           []string       `yaml:"order"`
	Concurrency     map[string]int `yaml:"concurrency"` // of plugins, by their names
	IsolateBuiltIns bool           `yaml:"isolateBuiltIns"`
	// DisabledBuiltIns names built-in plugins that are disabled; "*" stands for all.
	DisabledBuiltIns []string          `yaml:"disabledBuiltIns"`
	Rescan           Duration          `yaml:"rescan"`
	Environment      Environment       `yaml:"environment"`
	Variables        map[string]string `yaml:"variables"`
	Config           map[string]Object `yaml:"-"` // of actions, by their names
	// DryRun names actions without side effects that do not declare it. A dry run calls them too.
	DryRun    []string  `yaml:"dryRun"`
	Deadlines Deadlines `yaml:"deadlines"`
	Limits    Limits    `yaml:"limits"`
	Restart   Restart   `yaml:"restart"`
}

// Disables reports whether a built-in plugin is disabled.
func (p *Plugins) Disables(name string) bool {
	return slices.Contains(p.DisabledBuiltIns, "*") || slices.Contains(p.DisabledBuiltIns, name)
}

// Deadlines bound how long plugins may take.
type Deadlines struct {
	Start   Duration            `yaml:"start"`
	Query   Duration            `yaml:"query"`
	Execute Duration            `yaml:"execute"`
	Kinds   map[string]Duration `yaml:"kinds"`
}

// Limits bound what plugins may send, and the memory that each process may have.
type Limits struct {
	MessageSize    Size `yaml:"messageSize"`
	LinesPerSecond int  `yaml:"linesPerSecond"`
	Memory         Size `yaml:"memory"`
}

// Restart is how processes that exited are restarted.
type Restart struct {
	Backoff   Duration `yaml:"backoff"`
	Threshold int      `yaml:"threshold"`
	CoolDown  Duration `yaml:"coolDown"`
}

// Tracing is where spans are sent.
type Tracing struct {
	Endpoint string `yaml:"endpoint"` // of an OTLP collector; empty for no tracing
}

// maxFileSize is far more than anybody writes.
const maxFileSize = 1 << 20

// ReadFile reads the file that --config names. Its error lists everything that is wrong with the file, each with file,
// line, key and what would be right.
func ReadFile(path string) (*File, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the file that --config names: %w", err)
	}
	defer opened.Close()
	data, err := io.ReadAll(io.LimitReader(opened, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the file that --config names: %w", err)
	}
	return Parse(path, data)
}

// Problem returns err with the file and the line of the key that it is about, such as "plugins.lock".
func (f *File) Problem(key string, err error) error {
	return fmt.Errorf("%s: %w", f.root.locate(strings.Split(key, ".")), err)
}

// Apply sets the flags whose values the file has. A setting given by both is an error.
func (f *File) Apply(flags *pflag.FlagSet) error {
	var found problems
	for _, s := range []struct {
		flag  string
		path  []string
		value any
	}{
		{"concurrent-backups", []string{"backups", "concurrent"}, f.Backups.Concurrent},
		{"backup-attempts", []string{"backups", "attempts"}, f.Backups.Attempts},
		{"plugin-dir", []string{"plugins", "directory"}, f.Plugins.Directory},
		{"isolate-built-ins", []string{"plugins", "isolateBuiltIns"}, f.Plugins.IsolateBuiltIns},
		{"concurrent-restores", []string{"restores", "concurrent"}, f.Restores.Concurrent},
		{"restore-attempts", []string{"restores", "attempts"}, f.Restores.Attempts},
	} {
		if f.root.find(s.path) == nil || flags.Lookup(s.flag) == nil { // a node agent has some of the flags only
			continue
		}
		at := f.root.locate(s.path)
		if flags.Changed(s.flag) {
			found.add(at, "is set by the flag --%s as well; set it in one place", s.flag)
		} else if err := flags.Set(s.flag, fmt.Sprint(s.value)); err != nil {
			found.add(at, "%v", err)
		}
	}
	return found.err()
}
