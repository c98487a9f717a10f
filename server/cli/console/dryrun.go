package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/console"
	control "github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// beganWithin is how long a server may take to begin a dry run before its page says that none has.
const beganWithin = 15 * time.Second

// dryRunDocument is the dry run of what a form describes.
type dryRunDocument struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"` // RestoreDryRun or BackupDryRun
	Backup     string           `json:"backup,omitempty"`
	Name       string           `json:"name"`            // of the dry run
	Phase      string           `json:"phase,omitempty"` // without one, there is none
	Done       int              `json:"done"`            // items
	Total      int              `json:"total"`           // items, 0 while their number is not known
	Fetching   bool             `json:"fetching,omitempty"`
	Results    *results.Results `json:"results,omitempty"`
	Refused    string           `json:"refused,omitempty"` // why it cannot be started
	Problems   []string         `json:"problems,omitempty"`
	Command    string           `json:"command"`

	// of a restore
	Summary *outcome.Summary `json:"summary,omitempty"`
	Plan    *outcome.Plan    `json:"plan,omitempty"`
	Show    outcome.Verdict  `json:"show,omitempty"` // whose items are those of the page
	Items   []outcome.Item   `json:"items,omitempty"`
	Page    int              `json:"page,omitempty"`
	Pages   int              `json:"pages,omitempty"`

	// of a backup
	Collection *dryrun.Collection `json:"collection,omitempty"`

	What           string        `json:"-"` // would be created
	Note           string        `json:"-"` // why there is no result
	Working        bool          `json:"-"`
	Ready          bool          `json:"-"` // to be started
	Again          bool          `json:"-"` // the dry run is gone
	Accepts        bool          `json:"-"`
	Here, Change   string        `json:"-"` // addresses of the form, without and with what is entered
	Entered        []filter      `json:"-"`
	Once           string        `json:"-"`
	Links          []phaseLink   `json:"-"`
	Table          grid          `json:"-"`
	Counts         *layout.Table `json:"-"`
	Text           string        `json:"-"` // what the command prints besides
	Previous, Next string        `json:"-"`
}

// HasProgress reports whether the number of items is known.
func (d *dryRunDocument) HasProgress() bool { return d.Total > 0 }

// Percent returns how much of the items is done.
func (d *dryRunDocument) Percent() int { return min(100, 100*d.Done/max(1, d.Total)) }

// beginDryRun creates the dry run, and returns the address of its page. A form that is sent again leads there too.
func (e *entered) beginDryRun(ctx context.Context, l *console.Look, shown string) (next string, err error) {
	if err := e.confirm(ctx, l); err != nil {
		return "", err
	}
	if e.isWrong() {
		return e.link(""), nil
	}
	runs.MakeDryRun(e.object, e.dryRunName(shown), velerov1.DefaultDryRunKeep)
	if err := l.Create(ctx, e.object.Object); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create the dry run: %w", err)
	}
	return e.link("/dry-run", "once", shown), nil
}

// stopDryRun deletes the dry run, at work or not, and returns the address of the form.
func (e *entered) stopDryRun(ctx context.Context, l *console.Look, shown string) (next string, err error) {
	o, _ := e.form.make()
	err = l.Get(ctx, clusterOf(l).Key(e.dryRunName(shown)), o.Object)
	if err == nil && velerov1.IsDryRun(o) {
		err = l.Delete(ctx, o.Object, client.Preconditions{UID: new(o.GetUID())})
	}
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("delete the dry run: %w", err)
	}
	return e.link(""), nil
}

// accept starts a backup of exactly the items of its dry run.
func (e *entered) accept(ctx context.Context, l *console.Look, shown string) (next string, err error) {
	if e.form.kind != "backup" || e.isWrong() {
		return "", console.Wrong{Text: "only a backup whose dry run has ended can take exactly its items"}
	}
	b, err := runs.AcceptedDryRun(ctx, clusterOf(l), e.values.Get("name"), e.dryRunName(shown))
	if err != nil {
		return "", err
	}
	return e.start(ctx, l, runs.Backup(b), e.ticket(shown+" accept"))
}

// dryRunPage returns the page of the dry run of a form, below the path of that.
func (f *form) dryRunPage(path, title string) console.Page {
	return console.Page{Path: path + "/dry-run", Title: title, Template: "dry-run.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			values := maps.Clone(l.Request.URL.Query())
			shown := values.Get("once")
			if !once.MatchString(shown) {
				return nil, console.Wrong{Text: "this is not the address of a dry run: make one with the form"}
			}
			for _, key := range []string{"once", "show", "page"} {
				values.Del(key)
			}
			e, err := f.read(ctx, l, values)
			if err != nil {
				return nil, err
			}
			doc := &dryRunDocument{APIVersion: status.APIVersion, Kind: status.Run{Kind: f.kind}.Title() + "DryRun",
				What: f.kind, Here: e.path, Change: e.link(""), Once: shown, Name: e.dryRunName(shown), Command: e.command(l)}
			for _, key := range slices.Sorted(maps.Keys(e.values)) {
				doc.Entered = append(doc.Entered, filter{Name: key, Value: e.values.Get(key)})
			}
			if e.isWrong() {
				doc.Note = "What was entered is not right, or not any more: the form says why."
				return doc, nil
			}
			if err := l.May(ctx, "create", group, f.kind+"s", ""); err != nil {
				doc.Refused = err.Error()
			}
			return doc, doc.read(ctx, l, e)
		}}
}

// read reads how far the dry run is, and its result if it was carried out.
func (d *dryRunDocument) read(ctx context.Context, l *console.Look, e *entered) error {
	console.Watch(l, e.form.watched)
	o, state := e.form.make()
	err := l.Get(ctx, clusterOf(l).Key(d.Name), o.Object)
	if apierrors.IsNotFound(err) || err == nil && (!velerov1.IsDryRun(o) || o.GetDeletionTimestamp() != nil) {
		d.Ready, d.Again = true, true
		d.Note = fmt.Sprintf("There is no dry run of this any more: it is kept for %s after its end.",
			velerov1.DefaultDryRunKeep)
		return nil
	}
	if err != nil {
		return err
	}
	now := state()
	d.Phase, d.Done, d.Total = now.Phase, now.Done, now.Total
	switch {
	case !control.DryRunEnded(o):
		d.Working = true
		l.Again(time.Second)
		if age := l.Now.Sub(o.GetCreationTimestamp().Time); control.ClaimOf(o).By == "" && age > beganWithin {
			d.Problems = append(d.Problems, fmt.Sprintf("no server has begun the dry run within %s: does one run, and does it "+
				"know dry runs?", age.Round(time.Second)))
		}
		return nil
	case o.GetAnnotations()[velerov1.DryRunAnnotation] != velerov1.DryRunDone:
		d.Problems = append(d.Problems, "the dry run was not carried out: "+layout.OneLine(strings.Join(now.ValidationErrors,
			"; ")))
		return nil
	}
	d.Ready = true
	if now.Errors > 0 {
		d.Problems = append(d.Problems, fmt.Sprintf("the %s would not be Completed: it would have %s", e.form.kind,
			layout.Count(now.Errors, "error")))
	}
	if err := l.May(ctx, "create", group, "downloadrequests", ""); err != nil {
		d.Problems = append(d.Problems, err.Error()+", with which the console fetches the result")
		return nil
	}
	switch err := e.form.fill(ctx, l, d, e, o); {
	case errors.Is(err, console.ErrOpening):
		d.Fetching = true
	case errors.As(err, new(console.Wrong)):
		return err
	case err != nil:
		d.Problems = append(d.Problems, layout.OneLine(err.Error()))
	}
	return nil
}

// fillRestore adds what a restore would do.
func fillRestore(_ context.Context, l *console.Look, d *dryRunDocument, e *entered, o *runs.Object) error {
	cluster, r := clusterOf(l), o.Object
	d.Backup = l.Request.PathValue("name")
	found, release, err := console.Hold(l, "dry run "+d.Name, string(r.GetUID()),
		func(ctx context.Context) (*outcomes, error) {
			return fetchOutcomes(ctx, cluster, d.Name, d.Backup)
		})
	if err != nil {
		return err
	}
	defer release()
	d.Summary, d.Plan, d.Results = &found.content.Summary, found.content.Plan, &found.messages
	d.Show = outcome.Verdict(l.Value("show"))
	if d.Show == "" {
		d.Show = found.first()
	}
	if !slices.Contains(outcome.Verdicts(), d.Show) {
		return console.Wrong{Text: fmt.Sprintf("show=%s: want one of %v", d.Show, outcome.Verdicts())}
	}
	d.Pages = max(1, found.pages(d.Show))
	if d.Page, err = number(l.Request.URL.Query(), "page", 1, 1, d.Pages); err != nil {
		return err
	}
	if d.Items, err = found.page(d.Show, d.Page); err != nil {
		return err
	}
	link := func(verdict outcome.Verdict, page int) string {
		pairs := []string{"once", d.Once, "show", string(verdict)}
		if page > 1 {
			pairs = append(pairs, "page", strconv.Itoa(page))
		}
		return e.link("/dry-run", pairs...)
	}
	for _, verdict := range outcome.Verdicts() {
		d.Links = append(d.Links, phaseLink{string(verdict), link(verdict, 1), found.content.Summary.Items[verdict],
			verdict == d.Show})
	}
	if d.Page > 1 {
		d.Previous = link(d.Show, d.Page-1)
	}
	if d.Page < d.Pages {
		d.Next = link(d.Show, d.Page+1)
	}
	d.Table = outcomeTable(d.Backup, d.Show, d.Items)
	d.Counts = new(found.counts.Table())
	d.Text, err = printed(func(w writer) error { return found.counts.Print(w, found.content, found.messages) })
	return err
}

// collection is the result of a dry run of a backup.
type collection struct {
	found    dryrun.Collection
	messages results.Results
}

// Close implements io.Closer: a collection is in memory.
func (c *collection) Close() error { return nil }

// fillBackup adds what would be in a backup.
func fillBackup(_ context.Context, l *console.Look, d *dryRunDocument, _ *entered, o *runs.Object) error {
	cluster := clusterOf(l)
	b, _ := o.Object.(*velerov1.Backup)
	c, release, err := console.Hold(l, "dry run "+d.Name, string(b.UID),
		func(ctx context.Context) (*collection, error) {
			found, messages, err := runs.NewDownloads(answerWithin).Collection(ctx, cluster, b)
			return &collection{found, messages}, err
		})
	if err != nil {
		return err
	}
	defer release()
	d.Collection, d.Results, d.Accepts = &c.found, &c.messages, true
	d.Counts = new(runs.CollectionTable(c.found))
	d.Text, err = printed(func(w writer) error { return runs.PrintCollection(w, c.found, c.messages) })
	return err
}
