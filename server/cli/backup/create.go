package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/controller/schedules"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// backupCreate are the flags of "backup create".
type backupCreate struct {
	SpecFlags
	fromSchedule string
	wait         bool
}

func (c *backupCreate) run(ctx context.Context, a *command.App, args []string) error {
	s, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	backup, err := c.build(ctx, s, args)
	if err != nil {
		return err
	}
	if printed, err := c.Print(a, backup); printed {
		return err
	}
	err = s.Create(ctx, backup)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a backup named %s exists; choose another name, or delete it with \"cleat backup delete %s\"", backup.Name, backup.Name)
	}
	if err != nil {
		return fmt.Errorf("create the backup: %w", err)
	}
	fmt.Fprintf(a.Out, "Backup request %q submitted successfully.\n", backup.Name)
	if !c.wait {
		fmt.Fprintf(a.Out, "Run \"cleat backup describe %s\" or \"cleat backup logs %s\" for more details.\n", backup.Name, backup.Name)
		return nil
	}
	return awaitBackup(ctx, a, s, backup)
}

// build makes the Backup from the flags, on top of a schedule's template if there is one.
func (c *backupCreate) build(ctx context.Context, s *command.Cluster, args []string) (*velerov1.Backup, error) {
	spec, err := c.SpecFlags.Build()
	if err != nil {
		return nil, err
	}
	backup := &velerov1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Labels: c.Labels, Annotations: c.Annotations},
		Spec:       spec,
	}
	if c.fromSchedule != "" {
		if err := c.fromTemplate(ctx, s, backup); err != nil {
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

// fromTemplate takes the spec of a schedule, and a name from the schedule and the time.
func (c *backupCreate) fromTemplate(ctx context.Context, s *command.Cluster, backup *velerov1.Backup) error {
	var schedule velerov1.Schedule
	if err := s.Get(ctx, s.Key(c.fromSchedule), &schedule); err != nil {
		return fmt.Errorf("--from-schedule: %w", err)
	}
	made := schedules.NewBackup(&schedule, time.Now())
	maps.Copy(made.Labels, backup.Labels)
	if made.Annotations == nil {
		made.Annotations = make(map[string]string)
	}
	maps.Copy(made.Annotations, backup.Annotations)
	*backup = *made
	return nil
}

func newCreateBackupCommand(a *command.App) *cobra.Command {
	c := new(backupCreate)
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
	cmd.Flags().BoolVarP(&c.wait, "wait", "w", false, "wait until the backup has ended; fails unless it is Completed")
	return cmd
}

// awaitBackup shows the backup until it has ended.
func awaitBackup(ctx context.Context, a *command.App, s *command.Cluster, b *velerov1.Backup) error {
	see := func() command.State {
		now := command.State{Phase: status.PhaseOrNew(string(b.Status.Phase)), Ended: b.Status.Phase.Terminal()}
		if p := b.Status.Progress; p != nil {
			now.Done, now.Total = p.ItemsBackedUp, p.TotalItems
		}
		return now
	}
	if err := runs.Await(ctx, s, b, &velerov1.BackupList{}, see, command.NewProgress(a.Err, "backup "+b.Name)); err != nil {
		return fmt.Errorf("wait for the backup: %w", err)
	}
	more := fmt.Sprintf("run \"cleat backup describe %s --details\" or \"cleat backup logs %s\" for more", b.Name, b.Name)
	switch b.Status.Phase {
	case velerov1.BackupPhaseCompleted:
		items := 0
		if b.Status.Progress != nil {
			items = b.Status.Progress.ItemsBackedUp
		}
		fmt.Fprintf(a.Out, "Backup completed with status: Completed, %s; %s.\n", layout.Count(items, "item"), layout.Count(b.Status.Warnings, "warning"))
		return nil
	case velerov1.BackupPhaseFailedValidation:
		return fmt.Errorf("backup %s failed validation: %s", b.Name, strings.Join(b.Status.ValidationErrors, "; "))
	case velerov1.BackupPhasePartiallyFailed:
		return fmt.Errorf("backup %s completed with status: PartiallyFailed, %s; %s", b.Name, layout.Count(b.Status.Errors, "error"), more)
	default:
		return fmt.Errorf("backup %s completed with status: %s: %s; %s", b.Name, b.Status.Phase, layout.OrNone(b.Status.FailureReason), more)
	}
}
