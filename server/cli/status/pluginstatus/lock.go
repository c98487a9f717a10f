package pluginstatus

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// LockChanges is the document of "plugin lock".
type LockChanges struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Lock       string        `json:"lock"`
	Files      int           `json:"files"`   // in the lock
	Written    bool          `json:"written"` // false when nothing changed, and with --check
	Changes    []LockChange  `json:"changes"`
	Broken     []FileProblem `json:"broken"`  // unusable files, which are not in the lock
	Partial    []FileProblem `json:"partial"` // files in the lock with unusable plugins

	Refused bool `json:"-"` // the lock is not written because of broken files
	Absent  bool `json:"-"` // there is no lock to check
}

// Print writes the changes, and the broken files.
func (c *LockChanges) Print(w io.Writer) error {
	d := layout.NewDescription(w)
	if len(c.Changes) > 0 {
		t := layout.Table{Head: []string{"CHANGE", "FILE", "WHAT"}}
		for _, change := range c.Changes {
			t.Rows = append(t.Rows, []string{change.Change, layout.OneLine(change.File),
				layout.OrNone(layout.OneLine(change.What))})
		}
		if err := t.Print(w); err != nil {
			return err
		}
		d.Gap()
	}
	PrintFileProblems(d, "Cannot be used", c.Broken)
	PrintFileProblems(d, "Usable in part", c.Partial)
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

// Verdict returns the error with which the command ends.
func (c *LockChanges) Verdict() error {
	switch {
	case c.Refused:
		return fmt.Errorf("cannot lock %s; repair or remove what is broken, or leave it out with --skip-broken",
			layout.Count(len(c.Broken), "file"))
	case c.Absent:
		return fmt.Errorf("there is no lock %s; run the command without --check to write it", c.Lock)
	case !c.Written && len(c.Changes) > 0:
		return fmt.Errorf("the lock %s does not match the directory; run the command without --check to write it anew",
			c.Lock)
	}
	return nil
}

// LockChange is a difference between a lock and the one before.
type LockChange struct {
	Change string `json:"change"` // added, changed or removed
	File   string `json:"file"`   // relative to the directory
	What   string `json:"what,omitempty"`
}

// FileProblem is a problem of a file.
type FileProblem struct {
	File   string `json:"file"` // relative to the directory
	Reason string `json:"reason"`
}

// CompareLocks returns the differences between a lock and the one before, which may be nil, sorted by file.
func CompareLocks(before, now *pluginlock.Lock) []LockChange {
	if before == nil {
		before = &pluginlock.Lock{}
	}
	changes := []LockChange{}
	for _, plugin := range now.Plugins {
		old, was := before.Plugin(plugin.Path)
		if !was {
			changes = append(changes,
				LockChange{"added", plugin.Path, cmp.Or(providesText("provides ", plugin.Provides, nil), "provides nothing")})
			continue
		}
		var what []string
		if old.SHA256 != plugin.SHA256 {
			what = append(what, "other content")
		}
		what = append(what, providesText("also provides ", plugin.Provides, old.Provides),
			providesText("no longer provides ", old.Provides, plugin.Provides))
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

// providesText names the plugins in all that are not in others. It returns an empty text if there are none.
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

// PrintFileProblems writes the problems of files.
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
