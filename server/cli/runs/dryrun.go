package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// DryRun are the flags for dry runs of a command that creates a backup or a restore.
type DryRun struct {
	// On is true if a dry run is requested.
	On        bool
	keep      time.Duration
	details   bool // list all items of a restore
	downloads Downloads
}

// takeUp is the flag for how long to wait until a server begins, and for URLs.
const takeUp = time.Minute

// Add adds the flags.
func (d *DryRun) Add(flags *pflag.FlagSet, kind string) {
	flags.BoolVar(&d.On, "dry-run", false, "find out what the "+kind+
		" would do, and do nothing; waits, and prints the result, with -o json as JSON")
	flags.DurationVar(&d.keep, "keep", velerov1.DefaultDryRunKeep, "with --dry-run: how long to keep the result")
	d.downloads.Add(flags, takeUp)
}

// DryRunName returns the name of a dry run of a backup or restore.
func DryRunName(name string) string { return name + "-dry-run" }

// MakeDryRun makes a new backup or restore a dry run with a name of its own, and its result is kept for a time. It
// begins in a phase in which a server without dry runs ignores it.
func MakeDryRun(o *Object, name string, keep time.Duration) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[velerov1.DryRunAnnotation], annotations[velerov1.DryRunKeepAnnotation] = velerov1.DryRunRequested,
		keep.String()
	o.SetName(name)
	o.SetAnnotations(annotations)
	unclaimed := []string{"dry run: no server has begun it yet"}
	switch made := o.Object.(type) {
	case *velerov1.Backup:
		made.Status.Phase, made.Status.ValidationErrors = velerov1.BackupPhaseFailedValidation, unclaimed
	case *velerov1.Restore:
		made.Status.Phase, made.Status.ValidationErrors = velerov1.RestorePhaseFailedValidation, unclaimed
	}
}

// Backup makes b a dry run, carries it out and prints the contents of the backup.
func (d *DryRun) Backup(
	ctx context.Context, a *command.App, cluster *command.Cluster, b *velerov1.Backup, form string,
) error {
	accept := fmt.Sprintf("See what would be in it with \"cleat manifest ls %s\", and back up exactly that with \"cleat "+
		"backup create %s --accept\".\n", DryRunName(b.Name), b.Name)
	return d.carryOut(ctx, a, cluster, Backup(b), form, func() (int, error) {
		found, messages, err := d.downloads.Collection(ctx, cluster, b)
		if err != nil {
			return 0, err
		}
		if form == "json" {
			return b.Status.Errors, layout.PrintJSON(a.Out, struct {
				Name string `json:"name"`
				UID  string `json:"uid"`
				dryrun.Collection
				Results results.Results `json:"results"`
			}{b.Name, string(b.UID), found, messages})
		}
		if err := CollectionTable(found).Print(a.Out); err != nil {
			return 0, err
		}
		if err := PrintCollection(a.Out, found, messages); err != nil {
			return 0, err
		}
		_, err = fmt.Fprint(a.Out, accept)
		return b.Status.Errors, err
	})
}

// Restore makes r a dry run, carries it out and prints the outcome for each item. location is the location of its
// backup.
func (d *DryRun) Restore(
	ctx context.Context, a *command.App, cluster *command.Cluster, r *velerov1.Restore, form string,
) error {
	return d.carryOut(ctx, a, cluster, Restore(r), form, func() (int, error) {
		var b velerov1.Backup
		if err := cluster.Get(ctx, cluster.Key(r.Spec.BackupName), &b); err != nil {
			return 0, err
		}
		messages, err := d.downloads.Results(ctx, cluster, velerov1.DownloadTargetKindRestoreResults, r.Name,
			b.Spec.StorageLocation)
		if err != nil {
			return 0, err
		}
		show := d.printOutcomes
		if form == "json" {
			show = encodeOutcomes
		}
		return r.Status.Errors, show(a.Out, r, messages, func(use func(outcome.Item) error) (outcome.Content, error) {
			return d.downloads.Items(ctx, cluster, r, b.Spec.StorageLocation, use)
		})
	})
}

// carryOut makes o a dry run, creates it in place of an earlier one of that name, waits for its end and shows it. show
// returns the errors of the run, because of which it would not be Completed.
func (d *DryRun) carryOut(
	ctx context.Context, a *command.App, cluster *command.Cluster, o *Object, form string, show func() (int, error),
) error {
	if form != "" && form != "json" {
		return fmt.Errorf("--output %q: want json with --dry-run", form)
	}
	if d.keep <= 0 {
		return fmt.Errorf("--keep %s: want a duration such as 1h", d.keep)
	}
	MakeDryRun(o, DryRunName(o.GetName()), d.keep)
	kind, name := o.state().Kind, o.GetName()
	if err := d.replace(ctx, cluster, o); err != nil {
		return err
	}
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(d.downloads.timeout, func() {
		now, _ := o.DeepCopyObject().(client.Object)
		if err := cluster.Get(waiting, client.ObjectKeyFromObject(o.Object), now); err == nil && run.ClaimOf(now).By == "" {
			stop(fmt.Errorf("no server has begun the dry run %s within %s: does one run, and does it know dry runs? See "+
				"--timeout", name, d.downloads.timeout))
		}
	})
	defer timer.Stop()
	if err := await(waiting, cluster, o, command.NewProgress(a.Err, "dry run "+name)); err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return context.Cause(waiting)
		}
		return fmt.Errorf("wait for the dry run: %w", err)
	}
	if o.GetAnnotations()[velerov1.DryRunAnnotation] != velerov1.DryRunDone {
		return fmt.Errorf("dry run %s was not carried out: %s", name, strings.Join(o.state().ValidationErrors, "; "))
	}
	errs, err := show()
	if err == nil && errs > 0 {
		err = fmt.Errorf("the %s would not be Completed: it would have %s", kind, layout.Count(errs, "error"))
	}
	return err
}

// replace creates a dry run. An earlier one of that name that has ended is deleted before.
func (d *DryRun) replace(ctx context.Context, cluster *command.Cluster, o *Object) error {
	kind, name := o.state().Kind, o.GetName()
	key := client.ObjectKeyFromObject(o.Object)
	before, _ := o.DeepCopyObject().(client.Object)
	switch err := cluster.Get(ctx, key, before); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !velerov1.IsDryRun(before):
		return fmt.Errorf("a %s named %s exists, which is no dry run; choose another name", kind, name)
	case !run.DryRunEnded(before) && before.GetDeletionTimestamp() == nil:
		return fmt.Errorf("the dry run %s is in progress; wait for its end, or choose another name", name)
	default:
		if err := cluster.Delete(ctx, before, client.Preconditions{UID: new(before.GetUID())}); client.IgnoreNotFound(
			err,
		) != nil {
			return fmt.Errorf("delete the former dry run %s: %w", name, err)
		}
		err := wait.PollUntilContextTimeout(ctx, urlPoll, d.downloads.timeout, true, func(ctx context.Context) (bool, error) {
			err := cluster.Get(ctx, key, before)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("wait until the former dry run %s is deleted: %w", name, err)
		}
	}
	if err := cluster.Create(ctx, o.Object); err != nil {
		return fmt.Errorf("create the dry run %s: %w", name, err)
	}
	return nil
}

// CollectionTable returns the table of the contents of a backup, and of the objects that it would leave out.
func CollectionTable(found dryrun.Collection) layout.Table {
	table := layout.Table{Head: []string{"RESOURCE", "ITEMS", "LEFT OUT", "WHY"}}
	for _, r := range found.Resources {
		row := []string{r.Resource, fmt.Sprint(r.Items)}
		for _, out := range r.LeftOut {
			table.Rows = append(table.Rows, append(row, fmt.Sprint(out.Items), out.Reason))
			row = []string{"", ""}
		}
		if len(r.LeftOut) == 0 {
			table.Rows = append(table.Rows, row)
		}
	}
	return table
}

// PrintCollection prints what the table of a dry run of a backup does not have.
func PrintCollection(w io.Writer, found dryrun.Collection, messages results.Results) error {
	printMessages(w, "Errors", messages.Errors)
	printMessages(w, "Warnings", messages.Warnings)
	printNotCalled(w, found.NotCalled)
	_, err := fmt.Fprintf(w, "\n%s would be backed up; nothing was stored.\n", layout.Count(found.Items, "item"))
	return err
}

// printMessages prints the messages about a whole run, and the number of those about items.
func printMessages(w io.Writer, title string, messages results.Result) {
	if messages.Count() == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s: %d\n", title, messages.Count())
	for _, text := range slices.Concat(messages.Velero, messages.Cluster) {
		fmt.Fprintf(w, "  %s\n", text)
	}
	for _, namespace := range slices.Sorted(maps.Keys(messages.Namespaces)) {
		for _, text := range messages.Namespaces[namespace] {
			fmt.Fprintf(w, "  %s: %s\n", namespace, text)
		}
	}
}

func printNotCalled(w io.Writer, notCalled map[string]int) {
	if len(notCalled) == 0 {
		return
	}
	fmt.Fprint(w, "\nActions that were not called, because they may have side effects (see plugins.dryRun in the "+
		"server's configuration):\n")
	for _, action := range slices.Sorted(maps.Keys(notCalled)) {
		fmt.Fprintf(w, "  %s, for %s\n", action, layout.Count(notCalled[action], "item"))
	}
}

// itemsOf reads the file of a dry run of a restore.
type itemsOf func(use func(outcome.Item) error) (outcome.Content, error)

// AddDetails adds the flag for details of a dry run of a restore.
func (d *DryRun) AddDetails(flags *pflag.FlagSet) {
	flags.BoolVar(&d.details, "details", false, "with --dry-run: list all items, with their waves and what they wait for")
}

// printOutcomes prints the outcomes of a restore: the items that need attention, or all, then counts and the order.
func (d *DryRun) printOutcomes(w io.Writer, _ *velerov1.Restore, messages results.Results, items itemsOf) error {
	var outcomes Outcomes
	content, err := items(func(o outcome.Item) error {
		if !outcomes.Add(&o) {
			return nil
		}
		if d.details {
			return printDetails(w, &o)
		}
		switch {
		case o.Incomplete, o.Outcome == outcome.Conflict, o.Outcome == outcome.Refused, o.Outcome == outcome.Failed:
			_, err := fmt.Fprintf(w, "%s %s: %s: %s\n", o.Resource, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), o.Outcome,
				o.Reason)
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := outcomes.Table().Print(w); err != nil {
		return err
	}
	return outcomes.Print(w, content, messages)
}

// printDetails prints an item with its wave and what it waits for.
func printDetails(w io.Writer, o *outcome.Item) error {
	text := fmt.Sprintf("%s: %s", outcome.Ref{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}, o.Outcome)
	if o.Wave > 0 {
		text = fmt.Sprintf("wave %d: %s", o.Wave, text)
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	if needs := NeedsOf(o); needs != "" {
		text += "; waits for " + needs
	}
	_, err := fmt.Fprintln(w, layout.OneLine(text))
	return err
}

// encodeOutcomes prints the outcomes of a restore as one JSON document, without holding it in memory.
func encodeOutcomes(w io.Writer, r *velerov1.Restore, messages results.Results, items itemsOf) error {
	if _, err := fmt.Fprintf(w, "{\"name\":%q,\"uid\":%q,\"items\":[", r.Name, r.UID); err != nil {
		return err
	}
	separator := "\n"
	content, err := items(func(o outcome.Item) error {
		if o.Outcome == outcome.LeftOut {
			return nil
		}
		encoded, err := json.Marshal(o)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s%s", separator, encoded)
		}
		separator = ",\n"
		return err
	})
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(content.Summary)
	if err != nil {
		return err
	}
	order, err := json.Marshal(content.Plan)
	if err != nil {
		return err
	}
	said, err := json.Marshal(messages)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n],\"plan\":%s,\"summary\":%s,\"results\":%s}\n", order, encoded, said)
	return err
}

// AcceptedDryRun returns a backup that takes exactly the items of a dry run: it has the spec, the labels and the
// annotations of that.
func AcceptedDryRun(ctx context.Context, cluster *command.Cluster, name, dryRun string) (*velerov1.Backup, error) {
	var done velerov1.Backup
	if err := cluster.Get(ctx, cluster.Key(dryRun), &done); err != nil {
		return nil, fmt.Errorf("--accept: %w", err)
	}
	switch done.Annotations[velerov1.DryRunAnnotation] {
	case velerov1.DryRunDone:
	case "":
		return nil, fmt.Errorf("--accept: %s is a backup, not a dry run", dryRun)
	default:
		return nil, fmt.Errorf("--accept: the dry run %s was not carried out: %s", dryRun,
			strings.Join(done.Status.ValidationErrors, "; "))
	}
	b := &velerov1.Backup{TypeMeta: done.TypeMeta, Spec: done.Spec}
	b.Namespace, b.Name, b.Labels = done.Namespace, name, maps.Clone(done.Labels)
	b.Annotations = maps.Clone(done.Annotations)
	for _, own := range []string{velerov1.DryRunAnnotation, velerov1.DryRunKeepAnnotation, velerov1.AttemptAnnotation,
		run.ClaimAnnotation, run.TimesAnnotation} {
		delete(b.Annotations, own)
	}
	b.Annotations[velerov1.AcceptAnnotation] = dryRun + "/" + string(done.UID)
	if name == "" {
		return nil, errors.New("the backup has no name: cleat backup create NAME --accept")
	}
	return b, nil
}
