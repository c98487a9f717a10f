package runs

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Outcomes counts the items of a dry run of a restore by resource and verdict.
type Outcomes struct {
	counts    map[string]map[outcome.Verdict]int
	unchecked int
}

// Add counts an item. It returns false for those that the filters of the restore leave out, which are not counted.
func (o *Outcomes) Add(item *outcome.Item) bool {
	if item.Outcome == outcome.LeftOut {
		return false
	}
	if o.counts == nil {
		o.counts = map[string]map[outcome.Verdict]int{}
	}
	if o.counts[item.Resource] == nil {
		o.counts[item.Resource] = map[outcome.Verdict]int{}
	}
	o.counts[item.Resource][item.Outcome]++
	if item.Unchecked {
		o.unchecked++
	}
	return true
}

// Table returns the numbers of items by resource and verdict.
func (o *Outcomes) Table() layout.Table {
	table := layout.Table{Head: []string{"RESOURCE"}}
	for _, verdict := range outcome.Verdicts() {
		table.Head = append(table.Head, strings.ToUpper(string(verdict)))
	}
	for _, resource := range slices.Sorted(maps.Keys(o.counts)) {
		row := []string{resource}
		for _, verdict := range outcome.Verdicts() {
			row = append(row, fmt.Sprint(o.counts[resource][verdict]))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// Print prints what the table does not have: messages about the restore as a whole, the order of the items, and what
// was not checked.
func (o *Outcomes) Print(w io.Writer, content outcome.Content, messages results.Results) error {
	printMessages(w, "Errors of the restore as a whole", results.Result{Velero: messages.Errors.Velero})
	printMessages(w, "Warnings about the restore as a whole", results.Result{Velero: messages.Warnings.Velero})
	description := layout.NewDescription(w)
	status.PrintOrder(description, content.Plan, true)
	if err := description.Err(); err != nil {
		return err
	}
	printNotCalled(w, content.Summary.NotCalled)
	if o.unchecked > 0 {
		fmt.Fprintf(w, "\n%s could not be checked by the API server, because what they need would be created by the same "+
			"restore.\n", layout.Count(o.unchecked, "item"))
	}
	_, err := fmt.Fprintf(w, "\n%s.\n", outcome.Describe(content.Summary))
	return err
}

// NeedsOf returns what an item waits for, in words; "" if it waits for nothing.
func NeedsOf(item *outcome.Item) string {
	var needs []string
	for _, need := range item.Needs {
		needs = append(needs, need.String())
	}
	if item.MoreNeeds > 0 {
		needs = append(needs, fmt.Sprintf("%d more", item.MoreNeeds))
	}
	return strings.Join(needs, ", ")
}
