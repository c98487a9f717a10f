package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/control/schedules"
)

// createFlags are the flags of "backup create".
type createFlags struct {
	SpecFlags
	fromSchedule string
	accept       string
	dryRun       runs.DryRun
	wait         bool
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
	if c.dryRun.On {
		return c.dryRun.Backup(ctx, a, cluster, backup, c.Form())
	}
	if printed, err := c.Print(a.Out, backup); printed {
		return err
	}
	return runs.Create(ctx, a, cluster, runs.Backup(backup), c.wait,
		fmt.Sprintf("choose another name, or delete it with \"cleat backup delete %s\"", backup.Name))
}

// build returns the Backup that the flags describe. With --from-schedule, the template of the schedule is its spec.
func (c *createFlags) build(ctx context.Context, cluster *command.Cluster, args []string) (*velerov1.Backup, error) {
	if c.accept != "" {
		return c.accepted(ctx, cluster, args)
	}
	spec, err := c.Build()
	if err != nil {
		return nil, err
	}
	backup := &velerov1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Labels: c.Labels, Annotations: c.Annotations},
		Spec:       spec,
	}
	if c.fromSchedule != "" {
		if err := c.fromTemplate(ctx, cluster, backup); err != nil {
			return nil, err
		}
	}
	if len(args) > 0 {
		backup.Name = args[0]
	}
	if backup.Name == "" {
		return nil, errors.New("the backup has no name: cleat backup create NAME")
	}
	return backup, nil
}

// accepted returns the Backup that takes the items of a dry run, with the labels and annotations of the flags added.
func (c *createFlags) accepted(ctx context.Context, cluster *command.Cluster, args []string) (*velerov1.Backup, error) {
	name, dryRun := "", c.accept
	if len(args) > 0 {
		name = args[0]
	}
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
	if wrong := otherThan(cmd, "accept"); len(wrong) > 0 {
		return fmt.Errorf("--accept takes the spec of the dry run, so leave out %s", strings.Join(wrong, ", "))
	}
	return nil
}

// checkFromSchedule returns an error for flags that contradict --from-schedule. Velero's command ignores them.
func checkFromSchedule(cmd *cobra.Command, schedule string) error {
	if !cmd.Flags().Changed("from-schedule") {
		return nil
	}
	if strings.TrimSpace(schedule) == "" {
		return errors.New("--from-schedule has no value: want the name of a schedule")
	}
	if wrong := otherThan(cmd, "from-schedule", "dry-run", "keep"); len(wrong) > 0 {
		return fmt.Errorf("--from-schedule takes the spec of the schedule, so leave out %s", strings.Join(wrong, ", "))
	}
	return nil
}

// otherThan returns the flags of a new backup that are set and concern its spec, other than the given ones.
func otherThan(cmd *cobra.Command, names ...string) (set []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		fits := slices.Contains(names, f.Name) || slices.Contains([]string{"wait", "labels", "annotations", "output"}, f.Name)
		if !fits && cmd.InheritedFlags().Lookup(f.Name) == nil {
			set = append(set, "--"+f.Name)
		}
	})
	return set
}

// fromTemplate replaces backup by one that the schedule would create now. The labels and annotations of backup stay.
func (c *createFlags) fromTemplate(ctx context.Context, cluster *command.Cluster, backup *velerov1.Backup) error {
	var schedule velerov1.Schedule
	if err := cluster.Get(ctx, cluster.Key(c.fromSchedule), &schedule); err != nil {
		return fmt.Errorf("--from-schedule: %w", err)
	}
	created := schedules.NewBackup(&schedule, time.Now())
	maps.Copy(created.Labels, backup.Labels)
	if created.Annotations == nil {
		created.Annotations = make(map[string]string)
	}
	maps.Copy(created.Annotations, backup.Annotations)
	*backup = *created
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
			if err := errors.Join(checkAccept(cmd), checkFromSchedule(cmd, c.fromSchedule)); err != nil {
				return err
			}
			return c.run(cmd.Context(), a, args)
		},
	}
	c.Add(cmd.Flags(), "backup")
	cmd.Flags().StringVar(&c.fromSchedule, "from-schedule", "", "take the spec from the template of a schedule")
	cmd.Flags().StringVar(&c.accept, "accept", "",
		"take exactly the items of a dry run that has this spec; what has changed since is a warning")
	cmd.Flags().Lookup("accept").NoOptDefVal = ownDryRun
	c.dryRun.Add(cmd.Flags(), "backup")
	runs.AddWait(cmd.Flags(), &c.wait, "backup")
	return cmd
}
