package operations

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// NewCommand returns the command "operations".
func NewCommand(a *command.App) *cobra.Command {
	q := &query{}
	var live bool
	var output string
	cmd := &cobra.Command{
		Use:   "operations",
		Short: "Show how far the asynchronous operations of plugins are",
		Long: "Show the asynchronous operations that plugins have started for backups and restores, from their start: how " +
			"far each one is, at which\n" +
			"pace, the time left, and what is wrong with it. The numbers are those of the plugins. With -w, continue until " +
			"ctrl-c: on a terminal the\n" +
			"table is updated, elsewhere each operation that begins, ends, or gets into trouble is a line. With -o json, each " +
			"change is a line\n" +
			"that holds all operations.",
		Example: "  cleat operations\n  cleat operations -w --backup nightly\n  cleat operations -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			q.cluster = cluster
			if err := q.check(cmd.Context()); err != nil {
				return err
			}
			if live {
				view, err := newView(a.Out, a.Err, output)
				if err != nil {
					return err
				}
				return watch(cmd.Context(), q.ask, view)
			}
			document, err := q.ask(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(output, []string{"table"}, document, func() error { return document.Print(a.Out, nil) })
		},
	}
	command.AddOutput(cmd, &output, "table")
	cmd.Flags().BoolVarP(&live, "watch", "w", false, "show the progress as it happens")
	cmd.Flags().StringSliceVar(&q.backups, "backup", nil, "only operations of these backups")
	cmd.Flags().StringSliceVar(&q.restores, "restore", nil, "only operations of these restores")
	q.downloads.Add(cmd.Flags(), 5*time.Second)
	return cmd
}

// query is the selection of the user.
type query struct {
	cluster           *command.Cluster
	downloads         runs.Downloads
	backups, restores []string // of all if both are empty
}

// keys returns the keys of the selected owners.
func (q *query) keys() []string {
	var keys []string
	for _, name := range q.backups {
		keys = append(keys, serverreport.OwnerKey("Backup", name))
	}
	for _, name := range q.restores {
		keys = append(keys, serverreport.OwnerKey("Restore", name))
	}
	return keys
}

// check returns an error if a selected owner does not exist.
func (q *query) check(ctx context.Context) error {
	for _, name := range q.backups {
		if err := q.cluster.Get(ctx, q.cluster.Key(name), &velerov1.Backup{}); err != nil {
			return fmt.Errorf("--backup: %w", err)
		}
	}
	for _, name := range q.restores {
		if err := q.cluster.Get(ctx, q.cluster.Key(name), &velerov1.Restore{}); err != nil {
			return fmt.Errorf("--restore: %w", err)
		}
	}
	return nil
}

// ask returns the operations that the server follows. If it does not answer, ask returns the stored ones.
func (q *query) ask(ctx context.Context) (status.Operations, error) {
	report, problem := q.cluster.Operations(ctx, q.downloads.Timeout(), q.keys()...)
	if problem == nil {
		return status.NewOperations(q.cluster.Namespace, report, ""), nil
	}
	if ctx.Err() != nil {
		return status.Operations{}, ctx.Err()
	}
	report, err := q.stored(ctx)
	if err != nil {
		return status.Operations{}, err
	}
	return status.NewOperations(q.cluster.Namespace, report, problem.Error()), nil
}

// fetchers is how many files are downloaded at once.
const fetchers = 8

// stored returns the stored operations of the backups and restores that wait for operations, or start them.
func (q *query) stored(ctx context.Context) (*serverreport.Operations, error) {
	var backups velerov1.BackupList
	var restores velerov1.RestoreList
	if err := q.cluster.List(ctx, &backups, client.InNamespace(q.cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	if err := q.cluster.List(ctx, &restores, client.InNamespace(q.cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list the restores: %w", err)
	}
	locations := map[string]string{}
	var waiting []waiter
	keys := q.keys()
	add := func(run status.Run, object client.Object, location string) {
		if (run.Waits() || run.Starts()) &&
			(len(keys) == 0 || slices.Contains(keys, serverreport.OwnerKey(run.Kind, run.Name))) {
			waiting = append(waiting, waiter{run, object, location})
		}
	}
	for i := range backups.Items {
		b := &backups.Items[i]
		locations[b.Name] = b.Spec.StorageLocation
		add(status.BackupRun(b), b, b.Spec.StorageLocation)
	}
	for i := range restores.Items {
		r := &restores.Items[i]
		add(status.RestoreRun(r), r, locations[r.Spec.BackupName])
	}
	owners := make([]serverreport.OperationsOf, len(waiting))
	var group errgroup.Group
	group.SetLimit(fetchers)
	for i, w := range waiting {
		group.Go(func() error {
			owners[i] = q.downloads.StoredOperations(ctx, q.cluster, w.run, w.object.GetUID(), w.location)
			return nil
		})
	}
	_ = group.Wait() // problems of an operation are in it
	return serverreport.NewOperations(time.Now(), owners), ctx.Err()
}

// waiter is a backup or restore that has operations.
type waiter struct {
	run      status.Run
	object   client.Object
	location string // of its files
}
