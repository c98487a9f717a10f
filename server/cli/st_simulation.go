package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// simulationDocument is what "queue simulate -o json" prints.
type simulationDocument struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Policy     string   `json:"policy"`
	Limit      int      `json:"limit"`
	Namespaces []string `json:"namespaces,omitempty"` // that are taken to exist
	Rounds     []round  `json:"rounds"`
	Order      []string `json:"order,omitempty"` // in which backups start
	Stuck      []string `json:"stuck,omitempty"` // that never do
}

// round is what happens until the next backup ends.
type round struct {
	Round   int      `json:"round"`
	After   string   `json:"after,omitempty"`   // what time had to pass for it, "2h0m0s"
	Running []string `json:"running,omitempty"` // since an earlier round
	Starts  []string `json:"starts,omitempty"`
	Waiting []waiter `json:"waiting,omitempty"`
	Ends    string   `json:"ends,omitempty"` // absent when nothing runs, and so nothing will
}

// print writes a round as text.
func (r *round) print(d *description) {
	head := fmt.Sprintf("Round %d", r.Round)
	if r.After != "" {
		head += ", " + r.After + " later"
	}
	var happens []string
	if len(r.Running) > 0 {
		happens = append(happens, strings.Join(r.Running, ", ")+plural(r.Running, " runs", " run"))
	}
	if len(r.Starts) > 0 {
		happens = append(happens, strings.Join(r.Starts, ", ")+plural(r.Starts, " starts", " start"))
	}
	if len(happens) == 0 {
		happens = append(happens, "nothing runs")
	}
	d.gap()
	d.line("%s: %s", head, strings.Join(happens, "; "))
	if len(r.Waiting) > 0 {
		t := table{head: []string{"PLACE", "NAME", "WAITS FOR", "WHY"}}
		for i := range r.Waiting[:min(maxWaits, len(r.Waiting))] {
			w := &r.Waiting[i]
			t.rows = append(t.rows, []string{strconv.Itoa(w.Position), w.Name, abbreviate(w.Blockers, 3, ", "), oneLine(w.Message)})
		}
		var text strings.Builder
		_ = t.print(&text) // a Builder takes everything
		for row := range strings.Lines(text.String()) {
			d.line("  %s", strings.TrimRight(row, "\n"))
		}
		if left := len(r.Waiting) - maxWaits; left > 0 {
			d.line("  ... and %d more, see -o json", left)
		}
	}
	if r.Ends != "" {
		d.line("%s ends.", r.Ends)
	}
}

// waiter is where a backup waits in a round, and why.
type waiter struct {
	Position   int      `json:"position"`
	Name       string   `json:"name"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	Blockers   []string `json:"blockers,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
}

// maxWaits are how many waiting backups of a round people are shown.
const maxWaits = 20
