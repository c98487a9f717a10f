package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
)

// createFlags are the flags of "backup create".
type createFlags struct {
	NewFlags
	accept string
	dryRun runs.DryRun
	wait   bool
}

// ownDryRun is the value of --accept without one: the dry run that was made under the name of the backup.
const ownDryRun = "NAME-dry-run"

func (c *createFlags) run(ctx context.Context, a *command.App, args []string) error {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	backup, err := c.build(ctx, cluster, args)
	if err != nil {
		return err
	}
	if err := c.CheckSpec(); err != nil {
		return err
	}
	if c.dryRun.On {
		return c.dryRun.Backup(ctx, a, cluster, backup, c.Form())
	}
	if printed, err := c.Print(a.Out, backup); printed {
		return err
	}
	if err := c.CheckObjects(ctx, cluster); err != nil {
		return err
	}
	return runs.Create(ctx, a, cluster, runs.Backup(backup), c.wait,
		fmt.Sprintf("choose another name, or delete it with \"cleat backup delete %s\"", backup.Name))
}

// build returns the Backup that the flags describe.
func (c *createFlags) build(ctx context.Context, cluster *command.Cluster, args []string) (*velerov1.Backup, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if c.accept != "" {
		return c.accepted(ctx, cluster, name)
	}
	return c.New(ctx, cluster, name)
}

// accepted returns the Backup that takes the items of a dry run, with the labels and annotations of the flags added.
func (c *createFlags) accepted(ctx context.Context, cluster *command.Cluster, name string) (*velerov1.Backup, error) {
	dryRun := c.accept
	if dryRun == ownDryRun {
		dryRun = runs.DryRunName(name)
	}
	backup, err := runs.AcceptedDryRun(ctx, cluster, name, dryRun)
	if err != nil {
		return nil, err
	}
	if backup.Labels == nil {
		backup.Labels = make(map[string]string)
	}
	maps.Copy(backup.Labels, c.Labels)
	maps.Copy(backup.Annotations, c.Annotations)
	return backup, nil
}

// checkAccept returns an error for flags that contradict --accept.
func checkAccept(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("accept") {
		return nil
	}
	if wrong := otherThan(cmd.Flags(), cmd.InheritedFlags(), "accept"); len(wrong) > 0 {
		return fmt.Errorf("--accept takes the spec of the dry run, so leave out %s", strings.Join(wrong, ", "))
	}
	return nil
}

func newCreateCommand(a *command.App) *cobra.Command {
	c := new(createFlags)
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a backup",
		Example: "  cleat backup create nightly --include-namespaces shop,billing --wait",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := errors.Join(checkAccept(cmd), CheckFromSchedule(cmd.Flags(), cmd.InheritedFlags(), "dry-run", "keep"))
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), a, args)
		},
	}
	c.AddTo(cmd.Flags())
	cmd.Flags().StringVar(&c.accept, "accept", "",
		"take exactly the items of a dry run that has this spec; what has changed since is a warning")
	cmd.Flags().Lookup("accept").NoOptDefVal = ownDryRun
	c.dryRun.Add(cmd.Flags(), "backup")
	runs.AddWait(cmd.Flags(), &c.wait, "backup")
	return cmd
}
