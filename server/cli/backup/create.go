package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/controller/schedules"
)

// createFlags are the flags of "backup create".
type createFlags struct {
	SpecFlags
	fromSchedule string
	wait         bool
}

func (c *createFlags) run(ctx context.Context, a *command.App, args []string) error {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	backup, err := c.build(ctx, cluster, args)
	if err != nil {
		return err
	}
	if printed, err := c.Print(a.Out, backup); printed {
		return err
	}
	return runs.Create(ctx, a, cluster, runs.Backup(backup), c.wait,
		fmt.Sprintf("choose another name, or delete it with \"cleat backup delete %s\"", backup.Name))
}

// build returns the Backup that the flags describe. With --from-schedule, the template of the schedule is its spec.
func (c *createFlags) build(ctx context.Context, cluster *command.Cluster, args []string) (*velerov1.Backup, error) {
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
			return c.run(cmd.Context(), a, args)
		},
	}
	c.Add(cmd.Flags(), "backup")
	cmd.Flags().StringVar(&c.fromSchedule, "from-schedule", "", "take the spec from the template of a schedule")
	runs.AddWait(cmd.Flags(), &c.wait, "backup")
	return cmd
}
