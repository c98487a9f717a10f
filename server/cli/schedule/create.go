package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/backup"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/control/schedules"
	"github.com/cleat-dev/cleat/server/internal/spec/timetable"
)

// createFlags are the flags of "schedule create".
type createFlags struct {
	backup.SpecFlags
	schedule   velerov1.ScheduleSpec
	owner      bool
	skipAtOnce *bool
	name       string
}

func (c *createFlags) run(ctx context.Context, a *command.App) error {
	if c.schedule.Schedule == "" {
		return errors.New("say when to back up: --schedule \"0 3 * * *\"")
	}
	if _, err := timetable.Parse(c.schedule.Schedule, time.Now()); err != nil {
		return &command.FlagError{Flag: "schedule", Err: err}
	}
	if err := schedules.CheckName(c.name); err != nil {
		return err
	}
	template, err := c.Build()
	if err != nil {
		return err
	}
	if err := c.CheckSpec(); err != nil {
		return err
	}
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	schedule := &velerov1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: c.name, Labels: c.Labels,
			Annotations: c.Annotations},
		Spec: c.schedule,
	}
	getter().SetKind(schedule)
	schedule.Spec.Template, schedule.Spec.UseOwnerReferencesInBackup, schedule.Spec.SkipImmediately = template, &c.owner,
		c.skipAtOnce
	if printed, err := c.Print(a.Out, schedule); printed {
		return err
	}
	if err := c.CheckObjects(ctx, cluster); err != nil {
		return err
	}
	err = cluster.Create(ctx, schedule)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a schedule named %s exists; choose another name, or delete it with \"cleat schedule delete %s\"",
			schedule.Name, schedule.Name)
	}
	if err != nil {
		return fmt.Errorf("create the schedule: %w", err)
	}
	fmt.Fprintf(a.Out, "Schedule %q created successfully.\n", schedule.Name)
	return nil
}

func newCreateCommand(a *command.App) *cobra.Command {
	c := new(createFlags)
	cmd := &cobra.Command{
		Use:   "create NAME --schedule CRON",
		Short: "Create a schedule",
		Long: "Create a schedule. --schedule is a cron expression (minute, hour, day of the month, month, day of the " +
			"week),\n" +
			"a descriptor such as @daily, or \"@every 6h\". Times are in the zone of the server, usually UTC, unless the\n" +
			"expression begins with another zone, as in \"CRON_TZ=Europe/Berlin 0 3 * * *\".",
		Example: "  cleat schedule create nightly --schedule \"0 3 * * *\" --include-namespaces shop,billing --ttl 720h",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = args[0]
			return c.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	c.Add(f, "schedule")
	f.StringVar(&c.schedule.Schedule, "schedule", "", "when to back up, as a cron expression")
	f.BoolVar(&c.owner, "use-owner-references-in-backup", false,
		"let the schedule own its backups: deleting it deletes them")
	f.BoolVar(&c.schedule.Paused, "paused", false, "create the schedule paused")
	addSkipImmediately(cmd, &c.skipAtOnce)
	return cmd
}

func addSkipImmediately(cmd *cobra.Command, target **bool) {
	command.AddOptionalBool(cmd.Flags(), target, "skip-immediately",
		"skip a backup that is due at once; the default is the server's setting")
}
