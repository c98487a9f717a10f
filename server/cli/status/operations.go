package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Operations is the document of "operations".
type Operations struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	// Problem is the reason if the server reports nothing. The numbers are then the last stored ones.
	Problem string `json:"serverProblem,omitempty"`
	*serverreport.Operations
}

// NewOperations returns the document about the operations of a namespace.
func NewOperations(namespace string, report *serverreport.Operations, problem string) Operations {
	return Operations{APIVersion: APIVersion, Kind: "Operations", Namespace: namespace, Problem: problem,
		Operations: report}
}

// Print writes the document as text. before is an earlier report, from which rates are computed; may be nil.
func (doc *Operations) Print(w io.Writer, before *serverreport.Operations) error {
	if doc.Problem != "" {
		if _, err := fmt.Fprintln(w, "These numbers were stored some time ago, because the server does not report them: "+
			layout.OneLine(doc.Problem)); err != nil {
			return err
		}
	}
	if len(doc.Owners) == 0 {
		_, err := fmt.Fprintln(w, "No backup or restore waits for operations.")
		return err
	}
	return OperationsTable(doc.Operations, before).Print(w)
}

// OperationsTable returns the table of operations: a line that sums up all, and for each owner one that sums up its
// operations, before them. What people look at comes first, because a terminal may be too small for the rest.
func OperationsTable(report, before *serverreport.Operations) layout.Table {
	t := layout.Table{Head: []string{"OWNER", "PHASE", "DONE", "%", "RATE", "LEFT", "AGE", "ITEM", "PLUGIN", "NOTE"}}
	p := newPaces(report, before)
	if len(report.Owners)+report.Omitted > 1 {
		var notes []string
		if report.Omitted > 0 {
			notes = append(notes, layout.Count(report.Omitted, "owner")+" not shown")
		}
		t.Rows = append(t.Rows, append([]string{"all"}, summaryCells(&report.Summary, p.ofAll(report), notes...)...))
	}
	for i := range report.Owners {
		owner := &report.Owners[i]
		name := layout.OneLine(serverreport.OwnerKey(owner.Kind, owner.Name))
		if owner.Attempted() != 1 || len(owner.Operations) != 1 || owner.Problem != "" {
			t.Rows = append(t.Rows, append([]string{name}, summaryCells(&owner.Summary, p.ofOwner(owner),
				ownerNotes(owner)...)...))
		}
		for j := range owner.Operations {
			o := &owner.Operations[j]
			t.Rows = append(t.Rows, append([]string{name}, operationCells(o, p.of(owner, o), report.Time)...))
		}
	}
	return t
}

// operationCells returns the cells of an operation after that of its owner.
func operationCells(o *serverreport.Operation, rate pace, now time.Time) []string {
	left := none
	if !o.Ended() {
		left = rate.left(o.Done, o.Total)
	}
	return []string{
		layout.OneLine(o.Phase), amount(o.Done, o.Total, o.Units), percentage(o.Done, o.Total), rate.text(o.Units), left,
		age(o.Created, now),
		itemOf(o), layout.OneLine(o.Plugin), operationNote(o),
	}
}

// itemOf returns the name of an operation's item.
func itemOf(o *serverreport.Operation) string {
	item := []string{o.Resource}
	if o.Namespace != "" {
		item = append(item, o.Namespace)
	}
	return layout.OneLine(strings.Join(append(item, o.Name), "/"))
}

// summaryCells returns the cells of the line that sums up operations after that of their owner.
func summaryCells(s *serverreport.Summary, rates map[string]pace, notes ...string) []string {
	ended := fmt.Sprintf("%d of %d ended", s.Ended(), s.Attempted())
	if s.Failed > 0 {
		ended += fmt.Sprintf(", %d failed", s.Failed)
	}
	var done []string
	for _, a := range s.Amounts {
		done = append(done, amount(a.Done, a.Total, a.Units))
	}
	percent, rate, left := none, none, none
	if a, same := sameUnits(s); same {
		rate = rates[a.Units].text(a.Units)
		if s.Silent == 0 { // the total of all
			percent, left = percentage(a.Done, a.Total), rates[a.Units].left(a.Done, a.Total)
		}
	}
	if s.Open == 0 {
		rate, left = none, none
	}
	if s.Silent > 0 {
		notes = append(notes, fmt.Sprintf("%d without numbers", s.Silent))
	}
	if len(done) == 0 {
		done = []string{none}
	}
	return []string{ended, strings.Join(done, ", "), percent, rate, left, "", "(sum)", "", strings.Join(notes, "; ")}
}

// sameUnits returns the only amount of a summary. It returns false if there is none, or more than one.
func sameUnits(s *serverreport.Summary) (serverreport.Amount, bool) {
	if len(s.Amounts) != 1 {
		return serverreport.Amount{}, false
	}
	return s.Amounts[0], true
}

// OperationsProgress returns how far operations are in the units that they share, "" if they share none.
func OperationsProgress(s *serverreport.Summary) string {
	a, same := sameUnits(s)
	if !same {
		return ""
	}
	return amount(a.Done, a.Total, a.Units)
}

func ownerNotes(owner *serverreport.OperationsOf) []string {
	var notes []string
	if owner.Omitted > 0 {
		notes = append(notes, fmt.Sprintf("%d not shown", owner.Omitted))
	}
	if owner.Problem != "" {
		notes = append(notes, note(owner.Problem))
	}
	return notes
}

// operationNote returns the most important information about an operation.
func operationNote(o *serverreport.Operation) string {
	switch {
	case o.Error != "":
		return note(o.Error)
	case o.Trouble != "" && o.Cancelled != "":
		return note("to be cancelled (" + o.Cancelled + "), but the plugin does not answer: " + o.Trouble)
	case o.Trouble != "":
		return note("the plugin does not answer: " + o.Trouble)
	case o.Cancelled != "":
		return note("being cancelled: " + o.Cancelled)
	default:
		return note(o.Description)
	}
}

// printOperations writes the section about the operations of a run: their numbers and, if they are known, a table.
func printOperations(d *layout.Description, r Run, report *serverreport.Operations) {
	counted := &r.Operations
	if report != nil && report.Attempted() > 0 {
		counted = &report.Summary
	}
	if counted.Attempted() == 0 {
		return
	}
	d.Gap()
	text := fmt.Sprintf("%d of %d completed successfully, %d failed", counted.Completed, counted.Attempted(),
		counted.Failed)
	switch {
	case counted.Open > 0 && r.Failed():
		text += fmt.Sprintf(", %d cancelled because the %s failed", counted.Open, r.Kind)
	case counted.Open > 0:
		text += fmt.Sprintf(", %d open", counted.Open)
	}
	if report == nil && !r.Failed() {
		text += " (specify --details for more information)"
	}
	d.Pairs([2]string{r.Title() + " Item Operations", text})
	if report == nil {
		return
	}
	table := OperationsTable(report, nil)
	for i, row := range table.Rows {
		table.Rows[i] = row[1:] // without the owner
	}
	table.Head = table.Head[1:]
	var out strings.Builder
	_ = table.Print(&out) // a strings.Builder returns no error
	d.Indented(1, func() {
		d.Text(out.String())
		for i := range report.Owners {
			for j := range report.Owners[i].Operations {
				printLastLines(d, &report.Owners[i].Operations[j])
			}
		}
	})
}

// printLastLines writes the last output of a failed operation.
func printLastLines(d *layout.Description, o *serverreport.Operation) {
	if o.LastLines == "" {
		return
	}
	d.Section(fmt.Sprintf("Last lines of %s for %s", layout.OneLine(o.Plugin), itemOf(o)), func() { d.Text(o.LastLines) })
}

// maxNote is the length in bytes of a note in a table.
const maxNote = 160

func note(text string) string { return shorten.Text(layout.OneLine(text), maxNote) }

// OperationChanges returns a line for each operation that is new, or has changed more than its numbers, since the
// report before, which may be nil.
func OperationChanges(before, now *serverreport.Operations) []string {
	known := map[operationKey]*serverreport.Operation{}
	if before != nil {
		known = operationsByKey(before)
	}
	var lines []string
	for i := range now.Owners {
		owner := &now.Owners[i]
		for j := range owner.Operations {
			o := &owner.Operations[j]
			if was := known[keyOf(owner, o)]; was == nil || was.Phase != o.Phase || (was.Trouble == "") != (o.Trouble == "") ||
				was.Cancelled != o.Cancelled {
				lines = append(lines, changeLine(owner, o))
			}
		}
	}
	return lines
}

func changeLine(owner *serverreport.OperationsOf, o *serverreport.Operation) string {
	text := fmt.Sprintf("%s: %s for %s: %s", serverreport.OwnerKey(owner.Kind, owner.Name), o.Plugin, itemOf(o), o.Phase)
	if o.Done != 0 || o.Total != 0 {
		text += ", " + amount(o.Done, o.Total, o.Units)
	}
	if why := operationNote(o); why != "" {
		text += ", " + why
	}
	return layout.OneLine(text)
}
