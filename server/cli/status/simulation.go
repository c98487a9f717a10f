package status

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Simulation is the document of "queue simulate".
type Simulation struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Policy     string   `json:"policy"`
	Limit      int      `json:"limit"`
	Namespaces []string `json:"namespaces,omitempty"` // of the simulated cluster
	LeftOut    []string `json:"leftOut,omitempty"`    // what is wrong with backups that are not simulated
	Rounds     []Round  `json:"rounds"`
	Order      []string `json:"order,omitempty"` // in which backups start
	Stuck      []string `json:"stuck,omitempty"` // backups that never start
}

// SimulationTable returns the table of the backups that start in a simulation, each with when it starts and what it
// waits for until then.
func SimulationTable(s *Simulation) layout.Table {
	t := layout.Table{Head: []string{"ORDER", "NAME", "STARTS", "UNTIL THEN"}}
	starts, why := "now", map[string]string{}
	for i := range s.Rounds {
		r := &s.Rounds[i]
		if r.After != "" {
			starts += ", " + r.After + " later"
		}
		for _, name := range r.Starts {
			t.Rows = append(t.Rows, []string{strconv.Itoa(len(t.Rows) + 1), name, starts, why[name]})
		}
		for j := range r.Waiting {
			why[r.Waiting[j].Name] = layout.OneLine(r.Waiting[j].Message)
		}
		starts = "when " + r.Ends + " has ended"
	}
	for _, name := range s.Stuck {
		t.Rows = append(t.Rows, []string{"-", name, "never", why[name]})
	}
	return t
}

// Round lists the events until the next backup ends.
type Round struct {
	Round   int      `json:"round"`
	After   string   `json:"after,omitempty"`   // time that had to pass first, "2h0m0s"
	Running []string `json:"running,omitempty"` // since an earlier round
	Starts  []string `json:"starts,omitempty"`
	Waiting []Waiter `json:"waiting,omitempty"`
	Ends    string   `json:"ends,omitempty"` // absent if no backup runs, which ends the simulation
}

// Print writes a round as text.
func (r *Round) Print(d *layout.Description) {
	head := fmt.Sprintf("Round %d", r.Round)
	if r.After != "" {
		head += ", " + r.After + " later"
	}
	var happens []string
	if len(r.Running) > 0 {
		happens = append(happens, strings.Join(r.Running, ", ")+layout.Plural(r.Running, " runs", " run"))
	}
	if len(r.Starts) > 0 {
		happens = append(happens, strings.Join(r.Starts, ", ")+layout.Plural(r.Starts, " starts", " start"))
	}
	if len(happens) == 0 {
		happens = append(happens, "nothing runs")
	}
	d.Gap()
	d.Line("%s: %s", head, strings.Join(happens, "; "))
	if len(r.Waiting) > 0 {
		t := layout.Table{Head: []string{"POSITION", "NAME", "WAITS FOR", "WHY"}}
		for i := range r.Waiting[:min(maxWaits, len(r.Waiting))] {
			w := &r.Waiting[i]
			t.Rows = append(t.Rows, []string{strconv.Itoa(w.Position), w.Name, layout.Abbreviate(w.Blockers, 3, ", "),
				layout.OneLine(w.Message)})
		}
		var text strings.Builder
		_ = t.Print(&text) // a strings.Builder returns no error
		for row := range strings.Lines(text.String()) {
			d.Line("  %s", strings.TrimRight(row, "\n"))
		}
		if left := len(r.Waiting) - maxWaits; left > 0 {
			d.Line("  ... and %d more, see -o json", left)
		}
	}
	if r.Ends != "" {
		d.Line("%s ends.", r.Ends)
	}
}

// Waiter is a waiting backup in a round.
type Waiter struct {
	Position   int      `json:"position"`
	Name       string   `json:"name"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	Blockers   []string `json:"blockers,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
}

// maxWaits is the number of waiting backups that are printed as text in a round.
const maxWaits = 20
