package config

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// APIVersion is that of the file that ReadFile reads.
const APIVersion = "cleat.dev/v1"

// File is what the file has that --config names. Its zero value is a server without such a file. A zero field was
// not set; what holds then is said by whoever uses it. A duration that was set to "none" is negative.
//
// A new key is a new field. What its tags mean:
//
//	key       its name in the file
//	required  it must be there when what it is part of is
//	oneOf     the texts that are allowed
//	check     of texts: the rule that they keep, see checks in values.go; of a list or table, that of its values
//	keys      of tables: the rule that their keys keep
//	min, max  of numbers, sizes and durations; what has no min wants more than 0
//	none      of durations: the word "none" is allowed, for no limit
//	unique    of lists: no value comes twice, or none with the same value of that key
//	flag      the flag that says the same, of which only one may be set; see Apply
type File struct {
	APIVersion string    `key:"apiVersion" required:"true" oneOf:"cleat.dev/v1"`
	Backups    Backups   `key:"backups"`
	NodeAgent  NodeAgent `key:"nodeAgent"`
	Plugins    Plugins   `key:"plugins"`
	Restores   Restores  `key:"restores"`
	Tracing    Tracing   `key:"tracing"`

	positions
}

// Backups is how backups are queued and described.
type Backups struct {
	Concurrent int    `key:"concurrent" min:"1" flag:"concurrent-backups"`
	Admission  Policy `key:"admission"`
	// ManifestWriters describe each backup, all of them.
	ManifestWriters []ManifestWriter `key:"manifestWriters" unique:"plugin"`
}

// Restores is how restores are run.
type Restores struct {
	Concurrent int `key:"concurrent" min:"1" flag:"concurrent-restores"`
}

// NodeAgent is how loads on nodes are held back.
type NodeAgent struct {
	Soothing Policy `key:"soothing"`
}

// Policy is a plugin that decides something, and what happens when it cannot.
type Policy struct {
	Plugin        string        `key:"plugin" required:"true" check:"plugin"` // empty when nothing was set
	Deadline      time.Duration `key:"deadline" min:"1ms"`
	FailurePolicy string        `key:"failurePolicy" oneOf:"Hold,UseBuiltIn"`
	Config        Object        `key:"config"`
}

// ManifestWriter is a plugin that describes backups. It has Policy's shape, so one can be converted to the other.
type ManifestWriter struct {
	Plugin        string        `key:"plugin" required:"true" check:"plugin"`
	Deadline      time.Duration `key:"deadline" min:"1ms"` // without progress
	FailurePolicy string        `key:"failurePolicy" oneOf:"Warn,Fail"`
	Config        Object        `key:"config"`
}

// The failure policies.
const (
	Hold       = "Hold"       // nothing is decided until the plugin can
	UseBuiltIn = "UseBuiltIn" // the built-in policy of the kind decides
	Warn       = "Warn"       // the backup has a warning
	Fail       = "Fail"       // the backup has an error
)

// LockRequired is what Plugins.Lock is when there has to be a lock file at its usual place.
const LockRequired = "required"

// Plugins is how plugins are found and run.
type Plugins struct {
	Directory       string            `key:"directory" flag:"plugin-dir"`
	Lock            string            `key:"lock"` // a path, or LockRequired
	Order           []string          `key:"order" check:"order" unique:"true"`
	IsolateBuiltIns bool              `key:"isolateBuiltIns" flag:"isolate-built-ins"`
	Rescan          time.Duration     `key:"rescan" min:"1s" none:"true"`
	Environment     map[string]string `key:"environment" keys:"variable" check:"value"`
	Deadlines       Deadlines         `key:"deadlines"`
	Limits          Limits            `key:"limits"`
	Restart         Restart           `key:"restart"`
}

// Deadlines bound how long plugins may take.
type Deadlines struct {
	Start   time.Duration            `key:"start" min:"100ms" none:"true"`
	Query   time.Duration            `key:"query" min:"1ms" none:"true"`
	Execute time.Duration            `key:"execute" min:"1ms" none:"true"`
	Store   time.Duration            `key:"store" min:"1ms" none:"true"`
	Idle    time.Duration            `key:"idle" min:"1ms" none:"true"`
	Stop    time.Duration            `key:"stop" min:"1ms"`
	Probe   time.Duration            `key:"probe" min:"1ms"`
	Kinds   map[string]time.Duration `key:"kinds" keys:"kind" min:"1ms" none:"true"`
}

// Limits bound what plugins may send, and the memory that each process may have.
type Limits struct {
	MessageSize    Size `key:"messageSize" min:"4Mi" max:"2047Mi"`
	LinesPerSecond int  `key:"linesPerSecond" min:"1"`
	Memory         Size `key:"memory" min:"256Mi"`
}

// Restart is how processes that died are brought back.
type Restart struct {
	Base         time.Duration `key:"base"`
	Max          time.Duration `key:"max"`
	Threshold    int           `key:"threshold" min:"1"`
	CoolDown     time.Duration `key:"coolDown"`
	MaxCoolDown  time.Duration `key:"maxCoolDown"`
	HealthyAfter time.Duration `key:"healthyAfter"`
}

// Tracing is where spans go.
type Tracing struct {
	Endpoint string `key:"endpoint" check:"endpoint"` // of an OTLP collector; empty for no tracing
}

// Size is a number of bytes, in the file also with a unit: 256Mi.
type Size int64

// maxFileSize is far more than anybody writes.
const maxFileSize = 1 << 20

// ReadFile reads the file that --config names. Its error has everything that is wrong with it, each with file, line,
// key and what would be right.
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

// Problem is err with where the key stands whose value it is about.
func (f *File) Problem(key string, err error) error { return fmt.Errorf("%s: %w", f.at(key), err) }

// Apply sets the flags that the file has the values of. A setting that was given by both is an error.
func (f *File) Apply(flags *pflag.FlagSet) error {
	var found problems
	for _, s := range f.settings {
		if flags.Changed(s.flag) {
			found.add(s.place, "is set by the flag --%s as well; set it in one place", s.flag)
		} else if err := flags.Set(s.flag, s.value); err != nil {
			found.add(s.place, "%v", err)
		}
	}
	return found.err()
}
