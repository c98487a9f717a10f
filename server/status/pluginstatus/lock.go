package pluginstatus

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/pluginlock"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// lockChanges is what "plugin lock -o json" prints.
type LockChanges struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Lock       string        `json:"lock"`
	Files      int           `json:"files"`   // in the lock
	Written    bool          `json:"written"` // false when nothing changed, and with --check
	Changes    []LockChange  `json:"changes"`
	Broken     []FileProblem `json:"broken"`  // cannot be used, so they are not in the lock
	Partial    []FileProblem `json:"partial"` // in the lock, but something in them cannot be used

	Refused bool `json:"-"` // broken files keep the lock from being written
	Absent  bool `json:"-"` // there is no lock to check
}

// print writes what changed, and what is broken.
func (c *LockChanges) Print(w io.Writer) error {
	d := layout.NewDescription(w)
	if len(c.Changes) > 0 {
		t := layout.Table{Head: []string{"CHANGE", "FILE", "WHAT"}}
		for _, change := range c.Changes {
			t.Rows = append(t.Rows, []string{change.Change, layout.OneLine(change.File), layout.OrNone(layout.OneLine(change.What))})
		}
		if err := t.Print(w); err != nil {
			return err
		}
		d.Gap()
	}
	PrintFileProblems(d, "Cannot be used", c.Broken)
	PrintFileProblems(d, "Usable only in part", c.Partial)
	conclusion := ""
	switch {
	case c.Written:
		conclusion = fmt.Sprintf("Wrote %s with %s.", c.Lock, layout.Count(c.Files, "file"))
	case len(c.Changes) == 0 && !c.Refused && !c.Absent:
		conclusion = fmt.Sprintf("%s is up to date: %s.", c.Lock, layout.Count(c.Files, "file"))
	default:
		return d.Err()
	}
	if len(c.Broken)+len(c.Partial) > 0 {
		d.Gap()
	}
	d.Line("%s", conclusion)
	return d.Err()
}

// verdict is the error to end with.
func (c *LockChanges) Verdict() error {
	switch {
	case c.Refused:
		return fmt.Errorf("%s cannot be used, so it cannot be locked; repair or remove what is broken, or leave it out with --skip-broken",
			layout.Count(len(c.Broken), "file"))
	case c.Absent:
		return fmt.Errorf("there is no lock %s; write it without --check", c.Lock)
	case !c.Written && len(c.Changes) > 0:
		return fmt.Errorf("the lock %s is not that of the directory; look at what differs, and write it without --check", c.Lock)
	}
	return nil
}

// lockChange is how a lock differs from the one before.
type LockChange struct {
	Change string `json:"change"` // added, changed or removed
	File   string `json:"file"`   // relative to the directory
	What   string `json:"what,omitempty"`
}

// fileProblem is what is wrong with a file.
type FileProblem struct {
	File   string `json:"file"` // relative to the directory
	Reason string `json:"reason"`
}

// compareLocks is how a lock differs from the one before, which may be nil, by files.
func CompareLocks(before, now *pluginlock.Lock) []LockChange {
	if before == nil {
		before = &pluginlock.Lock{}
	}
	changes := []LockChange{}
	for _, plugin := range now.Plugins {
		old, was := before.Plugin(plugin.Path)
		if !was {
			changes = append(changes, LockChange{"added", plugin.Path, cmp.Or(providesText("provides ", plugin.Provides, nil), "provides nothing")})
			continue
		}
		var what []string
		if old.SHA256 != plugin.SHA256 {
			what = append(what, "other content")
		}
		what = append(what, providesText("also provides ", plugin.Provides, old.Provides), providesText("no longer provides ", old.Provides, plugin.Provides))
		what = slices.DeleteFunc(what, func(text string) bool { return text == "" })
		if len(what) > 0 {
			changes = append(changes, LockChange{"changed", plugin.Path, strings.Join(what, "; ")})
		}
	}
	for _, old := range before.Plugins {
		if _, is := now.Plugin(old.Path); !is {
			changes = append(changes, LockChange{"removed", old.Path, providesText("provided ", old.Provides, nil)})
		}
	}
	slices.SortStableFunc(changes, func(a, b LockChange) int { return strings.Compare(a.File, b.File) })
	return changes
}

// providesText names what is in all and not in others, empty when there is nothing.
func providesText(verb string, all, others []pluginlock.Provided) string {
	var names []string
	for _, provided := range all {
		if !slices.Contains(others, provided) {
			names = append(names, provided.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return verb + strings.Join(names, ", ")
}

// problems writes what is wrong with files.
func PrintFileProblems(d *layout.Description, head string, all []FileProblem) {
	if len(all) == 0 {
		return
	}
	d.Section(head, func() {
		for _, problem := range all {
			d.Section(layout.OneLine(problem.File), func() { d.Text(problem.Reason) })
		}
	})
}
