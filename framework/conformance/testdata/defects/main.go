// Command defects is a plugin that keeps all rules, in which one defect can be planted: "defects --defect RULE/VARIANT". "defects --kind KIND,..." is without one.
// With "--slow DURATION" each call takes so long; with "--closed" the policy admits no backup of the suite's own.
// It is made of gRPC alone, because framework makes many of the defects impossible. "defects --list" lists them.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // one defect is about time zones
)

// defect is one thing that is wrong.
type defect struct {
	kind  string // which is served for it; empty is BackupItemAction
	plant func(*program)
	along []string // rules that it breaks as well
	waits bool     // the suite waits in vain for something
}

// also is d, which has to break other rules as well.
func (d defect) also(rules ...string) defect {
	d.along = rules
	return d
}

// waiting is d, for which the suite waits in vain.
func (d defect) waiting() defect {
	d.waits = true
	return d
}

// listed is what the test gets to know of a defect.
type listed struct {
	Name string
	Kind string
	Also []string // rules that are broken along with the one that the name begins with
	// Waits says that the suite waits in vain for something, and so takes its time.
	Waits bool
}

func defects() map[string]defect {
	all := map[string]defect{}
	for _, some := range []map[string]defect{
		processDefects(), actionDefects(), operationDefects(), storeDefects(), snapshotterDefects(),
		policyDefects(), queueDefects(), soothingDefects(), manifestDefects(),
	} {
		maps.Copy(all, some)
	}
	return all
}

func main() {
	if slices.Contains(os.Args, "--list") {
		list()
		return
	}
	p := newProgram()
	if at := slices.Index(os.Args, "--kind"); at >= 0 {
		p.kinds = strings.Split(os.Args[at+1], ",")
	}
	if at := slices.Index(os.Args, "--defect"); at >= 0 {
		planted, ok := defects()[os.Args[at+1]]
		if !ok {
			fmt.Fprintf(os.Stderr, "no defect %q\n", os.Args[at+1])
			os.Exit(1)
		}
		p.kinds = []string{cmp.Or(planted.kind, "BackupItemAction")}
		planted.plant(p)
	}
	if slices.Contains(os.Args, "--closed") {
		p.queue = closed
	}
	if at := slices.Index(os.Args, "--slow"); at >= 0 {
		slow, err := time.ParseDuration(os.Args[at+1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		p.slow = slow
	}
	p.run()
}

func list() {
	var all []listed
	for _, name := range slices.Sorted(maps.Keys(defects())) {
		one := defects()[name]
		all = append(all, listed{Name: name, Kind: cmp.Or(one.kind, "BackupItemAction"), Also: one.along, Waits: one.waits})
	}
	_ = json.NewEncoder(os.Stdout).Encode(all)
}
