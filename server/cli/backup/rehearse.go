package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/key"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/control/rehearsals"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// rehearse is the command "backup rehearse".
type rehearse struct {
	wait, noWait bool
	timeout      time.Duration
	form         string
	downloads    *runs.Downloads
}

const (
	rehearseBegins = time.Minute     // until a server has begun it
	reportTimeout  = 2 * time.Minute // until the server makes a URL
)

func newRehearseCommand(a *command.App) *cobra.Command {
	c := &rehearse{downloads: runs.NewDownloads(reportTimeout)}
	cmd := &cobra.Command{
		Use:   "rehearse NAME",
		Short: "Restore a backup into namespaces of its own that are shut in, check what comes up, and delete it again",
		Long: "Restore a backup into namespaces of its own, from which nothing outside can be reached, wait until its " +
			"workloads are\nready, run the checks that the owners of the pods have set, compare what came up with the backup, " +
			"and delete it\nagain. The report is stored beside the backup; see \"cleat backup rehearsals NAME\".\n\n" +
			"Fails unless the rehearsal has passed. The command can be interrupted; the rehearsal goes on. It is a Restore: " +
			"\"cleat\nrestore cancel\" ends it early, with what it has made.",
		Example: "  cleat backup rehearse nightly-20260101000000 --timeout 20m",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), a, args[0])
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	f := cmd.Flags()
	f.BoolVarP(&c.wait, "wait", "w", true, "wait until the rehearsal has ended, and print its report")
	f.BoolVar(&c.noWait, "no-wait", false, "do not wait; the same as --wait=false")
	f.DurationVar(&c.timeout, "timeout", 0, "how long the workloads may take to be ready; 0 for "+
		"restores.rehearsals.timeout of the server")
	command.AddOutput(cmd, &c.form, "text")
	return cmd
}

func (c *rehearse) run(ctx context.Context, a *command.App, name string) error {
	if c.timeout < 0 {
		return fmt.Errorf("--timeout %s: want a duration such as 10m", c.timeout)
	}
	if err := command.CheckForm(c.form, "text"); err != nil {
		return err
	}
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	var b velerov1.Backup
	if err := cluster.Get(ctx, cluster.Key(name), &b); err != nil {
		return err
	}
	restore := rehearsals.New(cluster.Namespace, rehearsals.NameAt(name, time.Now()), name, c.timeout)
	err = cluster.Create(ctx, restore)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("rehearsal %s was requested a moment ago; wait a second", restore.Name)
	}
	if err != nil {
		return fmt.Errorf("request the rehearsal: %w", err)
	}
	if c.noWait || !c.wait {
		if c.form == "json" {
			return layout.PrintJSON(a.Out, map[string]string{"restore": restore.Name, "backup": name})
		}
		_, err := fmt.Fprintf(a.Out, "Rehearsal %q of backup %q is requested.\nRun \"cleat backup rehearsals %s\" to see "+
			"its result.\n", restore.Name, name, name)
		return err
	}
	summary, err := c.await(ctx, a, cluster, restore)
	if err != nil {
		return err
	}
	if err := c.print(ctx, a, cluster, &b, summary); err != nil {
		return err
	}
	if summary.Result != rehearsal.Passed {
		return fmt.Errorf("the rehearsal of backup %s is %s: %s", name, summary.Result, summary.Text)
	}
	return nil
}

// await shows the phases of a rehearsal and returns its result, when all that it has made is deleted.
func (c *rehearse) await(
	ctx context.Context, a *command.App, cluster *command.Cluster, restore *velerov1.Restore,
) (summary rehearsal.Summary, err error) {
	progress := command.NewProgress(a.Err, "rehearsal "+restore.Name)
	began := time.Now()
	err = runs.Poll(ctx, cluster, restore, progress, func() (bool, error) {
		phase, waits := status.RehearsalPhase(restore)
		progress.State(command.State{Phase: phase, Waiting: waits, What: "items"})
		switch restore.Annotations[velerov1.RehearsalAnnotation] {
		case velerov1.RehearsalDone:
			list := rehearsal.ParseList(restore.Annotations[velerov1.RehearsalsAnnotation])
			if len(list) == 0 {
				return false, errors.New("the rehearsal has ended without a result")
			}
			summary = list[0]
			return true, nil
		case velerov1.RehearsalRequested:
			if restore.Annotations[velerov1.WaitsAnnotation] == "" && time.Since(began) > rehearseBegins {
				return false, fmt.Errorf("no server has begun rehearsal %s within %s: does one run, and does it know "+
					"rehearsals?", restore.Name, rehearseBegins)
			}
		}
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("stopped waiting for rehearsal %s; it continues, see \"cleat backup rehearsals %s\"",
			restore.Name, restore.Spec.BackupName)
	}
	return summary, err
}

// print prints the report of a rehearsal.
func (c *rehearse) print(
	ctx context.Context, a *command.App, cluster *command.Cluster, b *velerov1.Backup, summary rehearsal.Summary,
) error {
	report := &rehearsal.Report{Version: 1, Summary: summary, Backup: b.Name}
	if summary.Stored {
		var err error
		keys := func() (trust.Ring, error) { return key.Accepted(ctx, cluster, reportTimeout) }
		if report, err = c.downloads.Rehearsal(ctx, cluster, b, summary.ID, summary.Digest, keys); err != nil {
			return fmt.Errorf("read the report of rehearsal %s: %w", summary.ID, err)
		}
	}
	return a.Print(c.form, []string{"text"}, report, func() error { return status.PrintRehearsal(a.Out, report) })
}

func newRehearsalsCommand(a *command.App) *cobra.Command {
	c := &rehearse{downloads: runs.NewDownloads(reportTimeout)}
	var id string
	cmd := &cobra.Command{
		Use:   "rehearsals [NAME]",
		Short: "List the rehearsals of backups, or print the report of one",
		Long: "List the last rehearsals of all backups, or those of one. With --id the report of one of them is printed; " +
			"\"last\" is\nthe newest.",
		Example: "  cleat backup rehearsals nightly-20260101000000 --id last",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(c.form, "text"); err != nil {
				return err
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			if id != "" {
				if len(args) == 0 {
					return errors.New("--id: name the backup as well")
				}
				return c.show(cmd.Context(), a, cluster, args[0], id)
			}
			return c.list(cmd.Context(), a, cluster, args)
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	cmd.Flags().StringVar(&id, "id", "", "print the report of the rehearsal with this id, or of the last one")
	command.AddOutput(cmd, &c.form, "text")
	return cmd
}

// show prints the report of one rehearsal of a backup.
func (c *rehearse) show(ctx context.Context, a *command.App, cluster *command.Cluster, name, id string) error {
	var b velerov1.Backup
	if err := cluster.Get(ctx, cluster.Key(name), &b); err != nil {
		return err
	}
	list := rehearsal.ParseList(b.Annotations[velerov1.RehearsalsAnnotation])
	if id == "last" {
		if len(list) == 0 {
			return fmt.Errorf("backup %s was not rehearsed in this cluster", name)
		}
		id = list[0].ID
	}
	summary := rehearsal.Summary{ID: id, Stored: true} // one that the annotation does not have any more
	for _, one := range list {
		if one.ID == id {
			summary = one
		}
	}
	err := c.print(ctx, a, cluster, &b, summary)
	if errors.Is(err, runs.ErrNoFile) {
		return fmt.Errorf("backup %s has no rehearsal %s", name, id)
	}
	return err
}

// list prints the rehearsals of backups, those at work included.
func (c *rehearse) list(ctx context.Context, a *command.App, cluster *command.Cluster, names []string) error {
	list, err := getter().List(ctx, cluster, "", names)
	if err != nil {
		return err
	}
	var restores velerov1.RestoreList
	if err := cluster.List(ctx, &restores, client.InNamespace(cluster.Namespace)); err != nil {
		return err
	}
	found := status.Rehearsals(list.Items, restores.Items)
	return a.Print(c.form, []string{"text"}, found, func() error {
		return status.RehearsalTable(found).Print(a.Out)
	})
}
