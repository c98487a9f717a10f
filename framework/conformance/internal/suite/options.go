package suite

import (
	"maps"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
)

// Options configures a test. The options of package conformance document the fields.
type Options struct {
	Timeout       time.Duration
	SlowCall      time.Duration // duration of a call above which independent calls are made at the same time
	OperationWait time.Duration
	Patience      time.Duration // how long a rule waits for something that happens at once on an idle machine
	EndTime       time.Duration // how long a process may take to exit when it is asked to
	LeakCalls     int
	LeakTime      time.Duration // time limit for the calls of a search for leaks
	Objects       int           // in the lists of an ObjectStore
	Large         int64         // bytes of the largest object
	Only          []string
	Environment   []string
	Config        map[string]map[string]string // by kind, name or kind/name; "" holds for all
	Items         [][]byte
	Snapshots     [][]byte
	Volume        string
	Zone          string
}

// Patience is the default of Options.Patience. It is generous: a rule must not fail because a machine is busy.
const Patience = 5 * time.Minute

// Defaults returns the options of a test whose caller gives none.
func Defaults() Options {
	return Options{
		Timeout:       3 * time.Minute,
		SlowCall:      time.Second,
		OperationWait: 10 * time.Second,
		Patience:      Patience,
		EndTime:       process.EndTime,
		LeakCalls:     200,
		LeakTime:      2 * time.Minute,
		Objects:       1005,
		Large:         12*MiB + 12345,
		Config:        map[string]map[string]string{},
	}
}

// configOf returns the configuration of one plugin, or nil if there is none. What is given for a kind and a name
// overrides what is given for the name, then for the kind, then for all.
func (o *Options) configOf(kind, name string) map[string]string {
	var config map[string]string
	for _, address := range []string{"", kind, name, kind + "/" + name} {
		if given := o.Config[address]; given != nil {
			if config == nil {
				config = map[string]string{}
			}
			maps.Copy(config, given)
		}
	}
	return config
}

func (o *Options) wants(name string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, name)
}
