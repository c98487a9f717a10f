package status

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// RestoreExplanation says why an item was skipped, waits or failed. It is the output of "restore explain", also as
// JSON.
type RestoreExplanation struct {
	Restore string `json:"restore"`
	// Live is set if the restore is at work, so that the rest changes.
	Live bool         `json:"live,omitempty"`
	Item outcome.Item `json:"item"`
	// Needs are what became of the needs of the item, as far as that is known.
	Needs []outcome.Item `json:"needs,omitempty"`
}

// Print writes the explanation as text.
func (e *RestoreExplanation) Print(w io.Writer) error {
	d := layout.NewDescription(w)
	i := &e.Item
	if i.Name == "" {
		where := i.Resource
		if i.Namespace != "" {
			where += " of namespace " + i.Namespace
		}
		d.Line("Restore %s leaves out all %s: %s", e.Restore, where, layout.OneLine(i.Reason))
		d.Line("They are %d. \"cleat manifest ls\" shows what is in the backup.", i.Items)
		return d.Err()
	}
	target := outcome.Ref{Resource: i.Resource, Namespace: i.Namespace, Name: i.Name}
	d.Line("%s in restore %s: %s", target, e.Restore, i.Outcome)
	var lines [][2]string
	if i.Reason != "" {
		lines = append(lines, [2]string{"Because", layout.OneLine(i.Reason)})
	}
	if i.From != "" {
		lines = append(lines, [2]string{"In the backup", i.Source().String()})
	}
	if i.Incomplete {
		lines = append(lines, [2]string{"Incomplete", "it is restored, but not as requested"})
	}
	if i.Wave > 0 {
		lines = append(lines, [2]string{"Wave", strconv.Itoa(i.Wave)})
	}
	if i.HeldUpBy != nil {
		lines = append(lines, [2]string{"Waited for", fmt.Sprintf("%s, until %s after the beginning of the restore",
			i.HeldUpBy, lasting(i.HeldUp))})
	}
	if i.Refusals > 0 {
		lines = append(lines, [2]string{"Refused", layout.Count(i.Refusals, "time") + " by the API server"})
	}
	d.Pairs(lines...)
	if len(i.Waits) > 0 {
		d.Section("Waits", func() {
			for _, wait := range i.Waits {
				soFar := ""
				if wait.Open {
					soFar = " so far"
				}
				d.Line("%s, for %s%s", layout.OneLine(wait.For), lasting(wait.Seconds), soFar)
				if wait.Because != "" {
					d.Indented(1, func() { d.Line("%s", layout.OneLine(wait.Because)) })
				}
			}
		})
	}
	e.printNeeds(d)
	return d.Err()
}

func (e *RestoreExplanation) printNeeds(d *layout.Description) {
	if len(e.Item.Needs) == 0 {
		return
	}
	became := map[outcome.Ref]*outcome.Item{}
	for i := range e.Needs {
		became[e.Needs[i].Source()] = &e.Needs[i]
	}
	d.Section("Needs", func() {
		for _, need := range e.Item.Needs {
			text := need.String()
			if need.Strict {
				text += ", without which it cannot be"
			}
			switch one := became[need.Ref]; {
			case need.Missing:
				text += ": not there yet"
			case one != nil:
				text += ": " + string(one.Outcome)
				if one.Reason != "" {
					text += ": " + one.Reason
				}
			}
			d.Line("%s", layout.OneLine(text))
		}
		if e.Item.MoreNeeds > 0 {
			d.Line("and %d more", e.Item.MoreNeeds)
		}
	})
}

func lasting(seconds float64) string {
	return (time.Duration(seconds*1000) * time.Millisecond).String()
}
