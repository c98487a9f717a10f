package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// table is rows of cells below a head.
type table struct {
	head []string
	rows [][]string
}

// print writes the columns aligned.
func (t table) print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range slices.Concat([][]string{t.head}, t.rows) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return out.Flush()
}

// addLabels adds columns with labels: one for each of keys, and one with all when all is set.
func (t *table) addLabels(labels []map[string]string, keys []string, all bool) {
	for _, key := range keys {
		t.head = append(t.head, strings.ToUpper(key[strings.LastIndex(key, "/")+1:]))
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], labels[i][key])
		}
	}
	if all {
		t.head = append(t.head, "LABELS")
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], orNone(metav1.FormatLabelSelector(metav1.SetAsLabelSelector(labels[i]))))
		}
	}
}
