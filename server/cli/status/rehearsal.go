package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Rehearsal is a rehearsal of a backup.
type Rehearsal struct {
	Backup string `json:"backup"`
	// Restore is the one by which a rehearsal at work is known; empty for one that has ended.
	Restore string `json:"restore,omitempty"`
	Phase   string `json:"phase,omitempty"` // of one at work
	rehearsal.Summary
}

// RehearsalPhase returns the phase of a rehearsal for people, and what it waits for.
func RehearsalPhase(restore *velerov1.Restore) (phase, waits string) {
	switch phase := restore.Annotations[velerov1.RehearsalAnnotation]; phase {
	case velerov1.RehearsalRestoring:
		run := RestoreRun(restore)
		return fmt.Sprintf("Restoring (%s)", run.Phase), run.Waiting
	case velerov1.RehearsalWaiting:
		return "WaitingUntilReady", longestWait(restore)
	case "":
		return "", ""
	default:
		return strings.ToUpper(phase[:1]) + phase[1:], longestWait(restore)
	}
}

// Rehearsals returns the rehearsals of backups: those at work, and the last ones of each that have ended.
func Rehearsals(backups []velerov1.Backup, restores []velerov1.Restore) []Rehearsal {
	all := []Rehearsal{}
	for i := range backups {
		b := &backups[i]
		for k := range restores {
			r := &restores[k]
			phase := r.Annotations[velerov1.RehearsalAnnotation]
			if r.Spec.BackupName != b.Name || phase == "" || r.Annotations[velerov1.RehearsalsAnnotation] != "" {
				continue
			}
			name, waits := RehearsalPhase(r)
			all = append(all, Rehearsal{Backup: b.Name, Restore: r.Name, Phase: name,
				Summary: rehearsal.Summary{Began: r.CreationTimestamp.UTC(), Text: waits}})
		}
		for _, one := range rehearsal.ParseList(b.Annotations[velerov1.RehearsalsAnnotation]) {
			all = append(all, Rehearsal{Backup: b.Name, Summary: one})
		}
	}
	slices.SortStableFunc(all, func(a, b Rehearsal) int { return b.Began.Compare(a.Began) })
	return all
}

// RehearsalTable returns the table of "backup rehearsals".
func RehearsalTable(all []Rehearsal) layout.Table {
	t := layout.Table{Head: []string{"BACKUP", "ID", "RESULT", "BEGAN", "RESTORE TAKES", "SUMMARY"}}
	for i := range all {
		one := &all[i]
		id, result := one.ID, string(one.Result)
		if one.Phase != "" {
			id, result = one.Restore, one.Phase
		}
		t.Rows = append(t.Rows, []string{one.Backup, id, result, layout.FormatTime(&metav1.Time{Time: one.Began}),
			estimate(one.Estimate), layout.OneLine(one.Text)})
	}
	return t
}

// estimate returns how long a restore would take.
func estimate(seconds float64) string {
	if seconds <= 0 {
		return "<unknown>"
	}
	return spent(seconds)
}

func spent(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d > time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond * 100).String()
}

// lastRehearsal returns the result of the last rehearsal of a backup and when that ended.
func lastRehearsal(b *velerov1.Backup) string {
	list := rehearsal.ParseList(b.Annotations[velerov1.RehearsalsAnnotation])
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s", list[0].Result, layout.FormatTime(&metav1.Time{Time: list[0].Ended}))
}

// printLastRehearsal writes the last rehearsal of a backup, if there is one.
func printLastRehearsal(d *layout.Description, b *velerov1.Backup) {
	list := rehearsal.ParseList(b.Annotations[velerov1.RehearsalsAnnotation])
	if len(list) == 0 {
		return
	}
	last := list[0]
	d.Gap()
	d.Section("Last rehearsal", func() {
		pairs := [][2]string{
			{"Result", string(last.Result)}, {"Ended", layout.FormatTime(&metav1.Time{Time: last.Ended})},
			{"Summary", layout.OneLine(last.Text)}, {"A restore takes", estimate(last.Estimate)},
		}
		if last.Stored {
			pairs = append(pairs, [2]string{"Report", fmt.Sprintf("cleat backup rehearsals %s --id %s", b.Name, last.ID)})
		}
		d.Pairs(pairs...)
	})
}

// PrintRehearsal writes the report of a rehearsal as text.
func PrintRehearsal(w io.Writer, r *rehearsal.Report) error {
	d := layout.NewDescription(w)
	d.Pairs(
		[2]string{"Backup", r.Backup}, [2]string{"Rehearsal", r.ID}, [2]string{"Result", string(r.Result)},
		[2]string{"Proved by", cmp.Or(r.Proof, "nothing")}, [2]string{"Summary", layout.OneLine(r.Text)},
		[2]string{"Began", layout.FormatTime(&metav1.Time{Time: r.Began})},
		[2]string{"Ended", layout.FormatTime(&metav1.Time{Time: r.Ended})},
	)
	if r.Times != (rehearsal.Times{}) {
		d.Gap()
		d.Section("Times", func() {
			d.Pairs([2]string{"Prepared in", spent(r.Times.Prepare)}, [2]string{"Restored in", spent(r.Times.Restore)},
				[2]string{"Ready after", spent(r.Times.Ready)}, [2]string{"Checked in", spent(r.Times.Checks)},
				[2]string{"A restore takes", estimate(r.Times.Estimate)})
		})
	}
	if len(r.Kinds) > 0 {
		d.Gap()
		d.Section("Compared with the backup", func() {
			for _, kind := range r.Kinds {
				d.Line("%s: %s", kind.Resource, kindText(kind))
			}
		})
	}
	for _, list := range []struct {
		head  string
		items rehearsal.Items
	}{
		{"Could not be restored", r.Missing}, {"Not ready in time", r.NotReady}, {"Not tried", r.NotTried},
		{"Restored in another form", r.Changed},
	} {
		printItems(d, list.head, list.items)
	}
	printChecks(d, r.Checks)
	printTexts(d, "Problems", r.Problems)
	printTexts(d, "Notes", r.Notes)
	return d.Err()
}

func printTexts(d *layout.Description, head string, texts []string) {
	if len(texts) == 0 {
		return
	}
	d.Gap()
	d.Section(head, func() {
		for _, text := range texts {
			d.Line("%s", layout.OneLine(text))
		}
	})
}

// kindText returns the counts of a resource in one line.
func kindText(kind rehearsal.Kind) string {
	parts := []string{strconv.Itoa(kind.Restored) + " of " + strconv.Itoa(kind.InBackup) + " restored"}
	for _, part := range []struct {
		n    int
		text string
	}{{kind.Existing, "existed before"}, {kind.NotTried, "not tried"}, {kind.Missing, "missing"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	return strings.Join(parts, ", ")
}

// maxItemsShown is the number of items of a list of a report that are printed. JSON has more.
const maxItemsShown = 50

func printItems(d *layout.Description, head string, list rehearsal.Items) {
	if list.Count == 0 {
		return
	}
	d.Gap()
	d.Section(fmt.Sprintf("%s (%d)", head, list.Count), func() {
		shown := list.Items[:min(maxItemsShown, len(list.Items))]
		for _, one := range shown {
			d.Line("%s: %s", one, layout.OneLine(one.Reason))
		}
		if more := list.Count - len(shown); more > 0 {
			d.Line("and %d more, see -o json", more)
		}
	})
}

func printChecks(d *layout.Description, checks []rehearsal.Check) {
	if len(checks) == 0 {
		return
	}
	d.Gap()
	d.Section("Checks", func() {
		for i := range checks {
			c := &checks[i]
			result := "passed"
			if c.Error != "" {
				result = "failed: " + c.Error
			}
			d.Line("%s/%s: %s (%s): %s", c.Namespace, c.Pod, layout.OneLine(strings.Join(c.Command, " ")), spent(c.Seconds),
				layout.OneLine(result))
		}
	})
}
