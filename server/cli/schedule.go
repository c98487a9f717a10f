package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func (a *App) scheduleCommand() *cobra.Command {
	return parent("schedule", "Work with schedules, which make backups at the times of a cron expression",
		a.scheduleCreateCommand(), a.scheduleGetCommand(), a.scheduleDescribeCommand(), a.scheduleDeleteCommand(),
		a.schedulePauseCommand("pause", true), a.schedulePauseCommand("unpause", false))
}

// getSchedules is how commands get schedules.
func getSchedules() getter[velerov1.Schedule, *velerov1.ScheduleList] {
	return getter[velerov1.Schedule, *velerov1.ScheduleList]{
		newList: func() *velerov1.ScheduleList { return &velerov1.ScheduleList{} },
		items:   func(l *velerov1.ScheduleList) *[]velerov1.Schedule { return &l.Items },
		sort: func(schedules []velerov1.Schedule) {
			slices.SortFunc(schedules, func(a, b velerov1.Schedule) int { return cmp.Compare(a.Name, b.Name) })
		},
		table: scheduleTable,
		meta:  func(s *velerov1.Schedule) client.Object { return s },
		retype: func(s *velerov1.Schedule) {
			s.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Schedule"}
		},
	}
}

// scheduleCreate are the flags of "schedule create".
type scheduleCreate struct {
	backupFlags
	schedule   velerov1.ScheduleSpec
	owner      bool
	skipAtOnce *bool
	name       string
}

func (a *App) scheduleCreateCommand() *cobra.Command {
	c := new(scheduleCreate)
	cmd := &cobra.Command{
		Use:   "create NAME --schedule CRON",
		Short: "Create a schedule",
		Long: "Create a schedule. --schedule is a cron expression (minute, hour, day of the month, month, day of the week),\n" +
			"a descriptor such as @daily, or \"@every 6h\". Times are those of the server's zone, UTC as a rule, unless the\n" +
			"expression begins with that of another, as in \"CRON_TZ=Europe/Berlin 0 3 * * *\".",
		Example: "  cleat schedule create nightly --schedule \"0 3 * * *\" --include-namespaces shop,billing --ttl 720h",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = args[0]
			return c.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	c.add(f, "schedule")
	f.StringVar(&c.schedule.Schedule, "schedule", "", "when to back up, as a cron expression")
	f.BoolVar(&c.owner, "use-owner-references-in-backup", false, "let the schedule own its backups: when it is deleted, they go too")
	f.BoolVar(&c.schedule.Paused, "paused", false, "create the schedule paused")
	addSkipImmediately(cmd, &c.skipAtOnce)
	return cmd
}

func addSkipImmediately(cmd *cobra.Command, target **bool) {
	addOptionalBool(cmd.Flags(), target, "skip-immediately", "skip a backup that is due at once; without it, the server's setting holds")
}

func (c *scheduleCreate) run(ctx context.Context, a *App) error {
	if c.schedule.Schedule == "" {
		return errors.New("say when to back up: --schedule \"0 3 * * *\"")
	}
	template, err := c.build()
	if err != nil {
		return err
	}
	s, err := a.cluster.connect()
	if err != nil {
		return err
	}
	schedule := &velerov1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: c.name, Labels: c.labels, Annotations: c.annotations},
		Spec:       c.schedule,
	}
	getSchedules().retype(schedule)
	schedule.Spec.Template, schedule.Spec.UseOwnerReferencesInBackup, schedule.Spec.SkipImmediately = template, &c.owner, c.skipAtOnce
	if printed, err := c.print(a, schedule); printed {
		return err
	}
	err = s.Create(ctx, schedule)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a schedule named %s exists; choose another name, or delete it with \"cleat schedule delete %s\"", schedule.Name, schedule.Name)
	}
	if err != nil {
		return fmt.Errorf("create the schedule: %w", err)
	}
	fmt.Fprintf(a.Out, "Schedule %q created successfully.\n", schedule.Name)
	return nil
}

func (a *App) scheduleGetCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List schedules",
		RunE: func(cmd *cobra.Command, args []string) error {
			return getSchedules().run(cmd.Context(), a, f, args)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *App) scheduleDescribeCommand() *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: "Describe schedules, all without a name",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.cluster.connect()
			if err != nil {
				return err
			}
			list, err := getSchedules().list(cmd.Context(), s, selector, args)
			if err != nil {
				return err
			}
			for i := range list.Items {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				if err := describeSchedule(a.Out, &list.Items[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only those whose labels match")
	return cmd
}

func describeSchedule(w io.Writer, s *velerov1.Schedule) error {
	d := &description{w: w}
	d.metadata(&s.ObjectMeta)
	d.gap()
	d.pairs([2]string{"Phase", phaseOr(string(s.Status.Phase))}, [2]string{"Paused", fmt.Sprint(s.Spec.Paused)})
	printValidationErrors(d, s.Status.ValidationErrors)
	d.gap()
	d.pairs([2]string{"Schedule", s.Spec.Schedule}, [2]string{"Last Backup", moment(s.Status.LastBackup)},
		[2]string{"Last Skipped", moment(s.Status.LastSkipped)})
	d.gap()
	d.section("Backup Template", func() { printBackupSpec(d, &s.Spec.Template) })
	return d.err
}

func (a *App) scheduleDeleteCommand() *cobra.Command {
	var which choice
	var confirm bool
	cmd := &cobra.Command{
		Use:   "delete [NAME...]",
		Short: "Delete schedules; their backups stay, unless the schedule owns them",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachSchedule(cmd.Context(), which, args, func(schedules []velerov1.Schedule) error {
				if confirm {
					return nil
				}
				return a.ask(fmt.Sprintf("Delete %s?", getSchedules().names(schedules)))
			}, func(s *session, schedule *velerov1.Schedule) error {
				if err := s.Delete(cmd.Context(), schedule); err != nil {
					return fmt.Errorf("delete schedule %s: %w", schedule.Name, err)
				}
				fmt.Fprintf(a.Out, "Schedule deleted: %s\n", schedule.Name)
				return nil
			})
		},
	}
	which.add(cmd.Flags(), "delete", "schedules")
	cmd.Flags().BoolVar(&confirm, "confirm", false, "do not ask")
	return cmd
}

// schedulePauseCommand is "pause" or "unpause".
func (a *App) schedulePauseCommand(verb string, paused bool) *cobra.Command {
	var which choice
	var skip *bool
	cmd := &cobra.Command{
		Use:   verb + " [NAME...]",
		Short: map[bool]string{true: "Let schedules make no backups for now", false: "Let paused schedules make backups again"}[paused],
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachSchedule(cmd.Context(), which, args, nil, func(s *session, schedule *velerov1.Schedule) error {
				if schedule.Spec.Paused == paused {
					fmt.Fprintf(a.Out, "Schedule %s is already %sd, skip\n", schedule.Name, verb)
					return nil
				}
				before := schedule.DeepCopy()
				schedule.Spec.Paused, schedule.Spec.SkipImmediately = paused, skip
				if err := s.Patch(cmd.Context(), schedule, client.MergeFrom(before)); err != nil {
					return fmt.Errorf("%s schedule %s: %w", verb, schedule.Name, err)
				}
				fmt.Fprintf(a.Out, "Schedule %s %sd successfully\n", schedule.Name, verb)
				return nil
			})
		},
	}
	which.add(cmd.Flags(), verb, "schedules")
	addSkipImmediately(cmd, &skip)
	return cmd
}

// eachSchedule does something to the schedules that were chosen, once ask, unless it is nil, has agreed.
func (a *App) eachSchedule(ctx context.Context, which choice, names []string, ask func([]velerov1.Schedule) error,
	do func(*session, *velerov1.Schedule) error,
) error {
	s, err := a.cluster.connect()
	if err != nil {
		return err
	}
	schedules, err := getSchedules().chosen(ctx, s, "schedules", which, names)
	if err != nil {
		return err
	}
	if len(schedules) == 0 {
		fmt.Fprintln(a.Out, "No schedules found.")
		return nil
	}
	if ask != nil {
		if err := ask(schedules); err != nil {
			return err
		}
	}
	var errs []error
	for i := range schedules {
		errs = append(errs, do(s, &schedules[i]))
	}
	return errors.Join(errs...)
}
