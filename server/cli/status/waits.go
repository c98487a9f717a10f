package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// longestWait returns the longest wait of a backup or restore, and since when, "" if there is none.
func longestWait(object metav1.Object) string {
	waits, err := velerov1.WaitsOf(object)
	if err != nil || waits == nil || len(waits.Oldest) == 0 {
		return "" // describe names the error
	}
	return "waits for " + waitText(waits.Oldest[0])
}

// waitText describes a wait and its beginning.
func waitText(w velerov1.Wait) string {
	return layout.OneLine(fmt.Sprintf("%s, since %s", w.For, layout.FormatTime(&w.Since)))
}

// printWaits writes the section about the waits of a backup or restore.
func printWaits(d *layout.Description, object metav1.Object) {
	waits, err := velerov1.WaitsOf(object)
	if err != nil {
		d.Gap()
		d.Line("Waits for: %s", layout.OneLine(err.Error()))
	}
	if err != nil || waits == nil {
		return
	}
	d.Gap()
	d.Section("Waits for", func() {
		for _, w := range waits.Oldest {
			text := waitText(w)
			if w.Parts > 1 {
				text += fmt.Sprintf(", in %d places", w.Parts)
			}
			d.Line("%s", text)
			if w.Because != "" {
				d.Indented(1, func() { d.Line("%s", layout.OneLine(w.Because)) })
			}
		}
		if waits.Others > 0 {
			d.Line("and %s", layout.Count(waits.Others, "other thing"))
		}
	})
}
