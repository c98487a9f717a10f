package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// restoreCreate are the flags of "restore create".
type restoreCreate struct {
	spec                           velerov1.RestoreSpec
	selectors                      command.LabelSelectors
	labels, annotations            map[string]string
	existing, modifiers            string
	statusIncludes, statusExcludes []string
	writeSparse                    *bool
	parallelFiles                  int
	itemOperationsTimeout          time.Duration
	allowPartial, wait             bool
	output                         string
}

func (c *restoreCreate) run(ctx context.Context, a *command.App, args []string) error {
	if (c.spec.BackupName == "") == (c.spec.ScheduleName == "") {
		return errors.New("say what to restore from: --from-backup or --from-schedule, one of them")
	}
	s, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	restore, err := c.build(s, args)
	if err != nil {
		return err
	}
	if err := c.checkSource(ctx, s, restore); err != nil {
		return err
	}
	switch c.output {
	case "":
	case "json":
		return layout.PrintJSON(a.Out, restore)
	case "yaml":
		return layout.PrintYAML(a.Out, restore)
	default:
		return fmt.Errorf("--output %q: want json or yaml", c.output)
	}
	err = s.Create(ctx, restore)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a restore named %s exists; choose another name", restore.Name)
	}
	if err != nil {
		return fmt.Errorf("create the restore: %w", err)
	}
	fmt.Fprintf(a.Out, "Restore request %q submitted successfully.\n", restore.Name)
	if !c.wait {
		fmt.Fprintf(a.Out, "Run \"cleat restore describe %s\" or \"cleat restore logs %s\" for more details.\n", restore.Name, restore.Name)
		return nil
	}
	return awaitRestore(ctx, a, s, restore)
}

// build makes the Restore from the flags.
func (c *restoreCreate) build(s *command.Cluster, args []string) (*velerov1.Restore, error) {
	restore := &velerov1.Restore{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Restore"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Labels: c.labels, Annotations: c.annotations},
		Spec:       c.spec,
	}
	spec := &restore.Spec
	restore.Name = cmp.Or(spec.BackupName, spec.ScheduleName) + "-" + time.Now().Format("20060102150405")
	if len(args) > 0 {
		restore.Name = args[0]
	}
	var err error
	if spec.LabelSelector, spec.OrLabelSelectors, err = c.selectors.Parse(); err != nil {
		return nil, err
	}
	spec.ItemOperationTimeout.Duration = c.itemOperationsTimeout
	spec.ExistingResourcePolicy = velerov1.PolicyType(c.existing)
	if len(c.statusIncludes)+len(c.statusExcludes) > 0 {
		spec.RestoreStatus = &velerov1.RestoreStatusSpec{IncludedResources: c.statusIncludes, ExcludedResources: c.statusExcludes}
	}
	if c.modifiers != "" {
		spec.ResourceModifier = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: c.modifiers}
	}
	if c.writeSparse != nil || c.parallelFiles > 0 {
		spec.UploaderConfig = &velerov1.UploaderConfigForRestore{WriteSparseFiles: c.writeSparse, ParallelFilesDownload: c.parallelFiles}
	}
	return restore, nil
}

// checkSource makes sure that there is a backup to restore from, and chooses one that is
// PartiallyFailed where that is allowed.
func (c *restoreCreate) checkSource(ctx context.Context, s *command.Cluster, restore *velerov1.Restore) error {
	if name := restore.Spec.BackupName; name != "" {
		var b velerov1.Backup
		if err := s.Get(ctx, s.Key(name), &b); err != nil {
			return fmt.Errorf("--from-backup: %w", err)
		}
		return nil
	}
	var list velerov1.BackupList
	schedule := restore.Spec.ScheduleName
	if err := s.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingLabels{velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule)}); err != nil {
		return err
	}
	usable := slices.DeleteFunc(list.Items, func(b velerov1.Backup) bool {
		return b.Status.Phase != velerov1.BackupPhaseCompleted && (!c.allowPartial || b.Status.Phase != velerov1.BackupPhasePartiallyFailed)
	})
	if len(usable) == 0 {
		return fmt.Errorf("--from-schedule: schedule %s has no backup that can be restored", schedule)
	}
	if c.allowPartial {
		newest := slices.MaxFunc(usable, func(a, b velerov1.Backup) int {
			return startOf(&a).Compare(startOf(&b))
		})
		restore.Spec.BackupName, restore.Spec.ScheduleName = newest.Name, ""
	}
	return nil
}

func newCreateRestoreCommand(a *command.App) *cobra.Command {
	c := new(restoreCreate)
	cmd := &cobra.Command{
		Use:     "create [NAME] --from-backup BACKUP | --from-schedule SCHEDULE",
		Short:   "Create a restore",
		Example: "  cleat restore create --from-backup nightly --namespace-mappings shop:shop-copy --wait",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), a, args)
		},
	}
	f, spec := cmd.Flags(), &c.spec
	f.StringVar(&spec.BackupName, "from-backup", "", "backup to restore from")
	f.StringVar(&spec.ScheduleName, "from-schedule", "", "schedule whose newest backup to restore from")
	f.BoolVar(&c.allowPartial, "allow-partially-failed", false, "with --from-schedule: take a PartiallyFailed backup when it is the newest")
	f.StringSliceVar(&spec.IncludedNamespaces, "include-namespaces", nil, "namespaces to restore, names or patterns; all without it")
	f.StringSliceVar(&spec.ExcludedNamespaces, "exclude-namespaces", nil, "namespaces to leave out")
	f.Var(config.NewPairs(&spec.NamespaceMapping), "namespace-mappings", "namespaces to restore under another name, as FROM:TO,...")
	f.StringSliceVar(&spec.IncludedResources, "include-resources", nil, "resources to restore, as resource.group")
	f.StringSliceVar(&spec.ExcludedResources, "exclude-resources", nil, "resources to leave out")
	command.AddOptionalBool(f, &spec.IncludeClusterResources, "include-cluster-resources", "restore cluster-scoped resources")
	f.StringVar(&c.existing, "existing-resource-policy", "", "what to do with objects that exist and differ: none or update")
	f.StringSliceVar(&c.statusIncludes, "status-include-resources", nil, "resources to restore the status of")
	f.StringSliceVar(&c.statusExcludes, "status-exclude-resources", nil, "resources not to restore the status of")
	c.selectors.Add(f)
	command.AddOptionalBool(f, &spec.RestorePVs, "restore-volumes", "restore volumes from snapshots")
	command.AddOptionalBool(f, &spec.PreserveNodePorts, "preserve-nodeports", "keep the node ports of services")
	f.DurationVar(&c.itemOperationsTimeout, "item-operation-timeout", 0, "how long asynchronous operations of plugins may take")
	f.StringVar(&c.modifiers, "resource-modifier-configmap", "", "ConfigMap with resource modifiers")
	command.AddOptionalBool(f, &c.writeSparse, "write-sparse-files", "write sparse files in volumes")
	f.IntVar(&c.parallelFiles, "parallel-files-download", 0, "files of a volume to download at once")
	f.StringToStringVar(&c.labels, "labels", nil, "labels of the restore")
	f.StringToStringVar(&c.annotations, "annotations", nil, "annotations of the restore")
	f.BoolVarP(&c.wait, "wait", "w", false, "wait until the restore has ended; fails unless it is Completed")
	f.StringVarP(&c.output, "output", "o", "", "print the restore as json or yaml instead of creating it")
	return cmd
}

// startOf is when a backup was started.
func startOf(b *velerov1.Backup) time.Time {
	if b.Status.StartTimestamp == nil {
		return time.Time{}
	}
	return b.Status.StartTimestamp.Time
}

// awaitRestore shows the restore until it has ended.
func awaitRestore(ctx context.Context, a *command.App, s *command.Cluster, r *velerov1.Restore) error {
	see := func() command.State {
		now := command.State{Phase: status.PhaseOrNew(string(r.Status.Phase)), Ended: r.Status.Phase.Terminal()}
		if p := r.Status.Progress; p != nil {
			now.Done, now.Total = p.ItemsRestored, p.TotalItems
		}
		return now
	}
	if err := runs.Await(ctx, s, r, &velerov1.RestoreList{}, see, command.NewProgress(a.Err, "restore "+r.Name)); err != nil {
		return fmt.Errorf("wait for the restore: %w", err)
	}
	more := fmt.Sprintf("run \"cleat restore describe %s --details\" or \"cleat restore logs %s\" for more", r.Name, r.Name)
	switch r.Status.Phase {
	case velerov1.RestorePhaseCompleted:
		items := 0
		if r.Status.Progress != nil {
			items = r.Status.Progress.ItemsRestored
		}
		fmt.Fprintf(a.Out, "Restore completed with status: Completed, %s; %s.\n", layout.Count(items, "item"), layout.Count(r.Status.Warnings, "warning"))
		return nil
	case velerov1.RestorePhaseFailedValidation:
		return fmt.Errorf("restore %s failed validation: %s", r.Name, strings.Join(r.Status.ValidationErrors, "; "))
	case velerov1.RestorePhasePartiallyFailed:
		return fmt.Errorf("restore %s completed with status: PartiallyFailed, %s; %s", r.Name, layout.Count(r.Status.Errors, "error"), more)
	default:
		return fmt.Errorf("restore %s completed with status: %s: %s; %s", r.Name, r.Status.Phase, layout.OrNone(r.Status.FailureReason), more)
	}
}
