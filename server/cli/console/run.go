package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// runDocument is a backup or restore as its page shows it: the document of "describe -o json" is its largest part.
type runDocument struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"` // BackupPage or RestorePage
	Name       string             `json:"name"`
	Phase      string             `json:"phase"`
	Done       int                `json:"done"`  // items
	Total      int                `json:"total"` // items
	Complete   bool               `json:"complete"`
	Waits      []string           `json:"waits,omitempty"`
	Errors     []status.Cause     `json:"errors,omitempty"`
	Warnings   []status.Cause     `json:"warnings,omitempty"`
	PodVolumes []status.PodVolume `json:"podVolumes,omitempty"`
	Movements  []status.Movement  `json:"dataMovements,omitempty"`
	Describe   any                `json:"describe"`
	Problems   []string           `json:"problems,omitempty"`
	Pace       string             `json:"pace,omitempty"` // of the items, and the time left, while it is in progress
	Started    *metav1.Time       `json:"started,omitempty"`
	Completed  *metav1.Time       `json:"completed,omitempty"`

	Run        status.Run    `json:"-"`
	Text       string        `json:"-"` // what "describe" prints
	Search     string        `json:"-"`
	Operations *layout.Table `json:"-"`
	Back       string        `json:"-"` // path of the list
	Here       string        `json:"-"` // path of this page
	Why        string        `json:"-"` // path of the page that says why it waits; "" if it does not
	Command    string        `json:"-"` // that says the same
	Restore    string        `json:"-"` // path of the form; "" if nothing can be restored from it
	CanCancel  bool          `json:"-"`
}

// newRunDocument returns the document of a run without what backups and restores have apart.
func newRunDocument(l *console.Look, run status.Run, describe any, found *results.Results,
	operations *serverreport.Operations, complete bool,
) *runDocument {
	doc := &runDocument{
		APIVersion: status.APIVersion, Kind: run.Title() + "Page", Name: run.Name, Phase: run.Phase, Done: run.Done,
		Total: run.Total, Complete: complete, Describe: describe, Run: run, Search: l.Value("search"),
		Back: "/" + run.Kind + "s", Here: pathOf(run.Kind+"s", run.Name),
		Command: "cleat " + run.Kind + " describe " + run.Name + " --details",
	}
	if found != nil {
		doc.Errors, doc.Warnings = status.Causes(&found.Errors, doc.Search), status.Causes(&found.Warnings, doc.Search)
	}
	if operations != nil && len(operations.Owners) > 0 {
		table := status.OperationsTable(operations, reportBefore(l, doc.Here, operations))
		doc.Operations = &table
	}
	_, err := run.Cancellation()
	doc.CanCancel = err == nil
	return doc
}

// follow adds what is known of the run while it is in progress: its waits, and the loads of its volumes with their
// paces, of which those of the description are some seconds old.
func (d *runDocument) follow(l *console.Look, o metav1.Object, pods []status.PodVolume, movements []status.Movement) {
	d.Waits = waitsOf(o)
	d.PodVolumes, d.Movements = status.WithPaces(pods, movements, pacesOf(l), l.Now)
	d.Pace = d.Run.Pace(pacesOf(l), string(o.GetUID()), d.Started, l.Now)
}

// Volumes returns the table of the loads of a run.
func (d *runDocument) Volumes() layout.Table { return status.LoadTable(d.PodVolumes, d.Movements) }

// Percent returns how much of the items is done.
func (d *runDocument) Percent() int {
	if d.Total <= 0 {
		return 0
	}
	return min(100, 100*d.Done/d.Total)
}

// Lasts returns how long the run has taken so far, or has taken.
func (d *runDocument) Lasts(now time.Time) string {
	if d.Started == nil {
		return ""
	}
	end := now
	if d.Completed != nil {
		end = d.Completed.Time
	}
	return end.Sub(d.Started.Time).Round(time.Second).String()
}

// waitsOf returns what a run waits for, the longest wait first.
func waitsOf(o metav1.Object) []string {
	waits, err := velerov1.WaitsOf(o)
	if err != nil {
		return []string{layout.OneLine(err.Error())}
	}
	if waits == nil {
		return nil
	}
	oldest := slices.SortedFunc(slices.Values(waits.Oldest), func(a, b velerov1.Wait) int {
		return cmp.Compare(a.Since.Unix(), b.Since.Unix())
	})
	var texts []string
	for _, w := range oldest {
		texts = append(texts, layout.OneLine(strings.TrimSuffix(w.For+", since "+layout.FormatTime(&w.Since)+": "+w.Because,
			": ")))
	}
	return texts
}
