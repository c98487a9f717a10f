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
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range slices.Concat([][]string{t.Head}, t.Rows) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return out.Flush()
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
