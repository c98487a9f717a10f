package layout

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Table is a table with a header.
type Table struct {
	Head []string
	Rows [][]string
}

// Print writes the table with aligned columns.
func (t Table) Print(w io.Writer) error {
	var aligned strings.Builder // whose writes do not fail
	out := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	for _, row := range slices.Concat([][]string{t.Head}, t.Rows) {
		_, _ = fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	_ = out.Flush()
	for line := range strings.Lines(aligned.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// AddLabels adds a column for each of keys and, if all is set, one with all labels.
func (t *Table) AddLabels(labels []map[string]string, keys []string, all bool) {
	for _, key := range keys {
		t.Head = append(t.Head, strings.ToUpper(key[strings.LastIndex(key, "/")+1:]))
		for i := range t.Rows {
			t.Rows[i] = append(t.Rows[i], labels[i][key])
		}
	}
	if all {
		t.Head = append(t.Head, "LABELS")
		for i := range t.Rows {
			t.Rows[i] = append(t.Rows[i], OrNone(metav1.FormatLabelSelector(metav1.SetAsLabelSelector(labels[i]))))
		}
	}
}
