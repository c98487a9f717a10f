// Command defects is a plugin that keeps all rules, except for one planted defect: "defects --defect RULE/VARIANT".
// "defects --list" lists the defects. It uses gRPC directly, because framework makes many of the defects impossible.
//
// "defects --unusual NAME" has no defect, but does something that other plugins do not; "defects --list" has these too.
//
// "defects --kind KIND,..." is neither. With "--slow DURATION" each call takes that long, and with "--calls FILE" a
// line with the times of its start and end is added to the file; with "--closed" the policy admits none of the backups
// that the suite makes up.
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

// defect is a defect that can be planted.
type defect struct {
	kind  string // that is served; BackupItemAction if empty
	plant func(*program)
	along []string // other rules that it breaks
	waits bool     // the suite runs into a timeout
	fine  bool     // it is unusual and no defect
}

// also returns d with other rules that it breaks inevitably.
func (d defect) also(rules ...string) defect {
	d.along = rules
	return d
}

// waiting returns d marked as one that makes the suite run into a timeout.
func (d defect) waiting() defect {
	d.waits = true
	return d
}

// listed describes a defect to the test.
type listed struct {
	Name string
	Kind string
	Also []string // other rules that it breaks
	// Waits reports that the suite runs into a timeout.
	Waits bool
	// Unusual reports that it is not a defect.
	Unusual bool
}

func defects() map[string]defect {
	all := map[string]defect{}
	for _, some := range []map[string]defect{
		processDefects(), actionDefects(), operationDefects(), storeDefects(), snapshotterDefects(),
		policyDefects(), queueDefects(), soothingDefects(), manifestDefects(), moverDefects(), unusual(),
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
	if at := slices.IndexFunc(os.Args, func(arg string) bool { return arg == "--defect" || arg == "--unusual" }); at >= 0 {
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
	if at := slices.Index(os.Args, "--calls"); at >= 0 {
		p.calls = os.Args[at+1]
	}
	p.run()
}

func list() {
	var all []listed
	for _, name := range slices.Sorted(maps.Keys(defects())) {
		one := defects()[name]
		all = append(all, listed{Name: name, Kind: cmp.Or(one.kind, "BackupItemAction"), Also: one.along, Waits: one.waits,
			Unusual: one.fine})
	}
	_ = json.NewEncoder(os.Stdout).Encode(all)
}
