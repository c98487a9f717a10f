package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
)

// createFlags are the flags of "restore create".
type createFlags struct {
	spec                           velerov1.RestoreSpec
	selectors                      command.LabelSelectors
	labels, annotations            map[string]string
	existing, modifiers, policy    string
	statusIncludes, statusExcludes []string
	writeSparse                    *bool
	parallelFiles                  int
	itemOperationsTimeout          time.Duration
	allowPartial, wait             bool
	owners                         bool
	finalizers                     *bool
	dryRun                         runs.DryRun
	command.PrintFlag
}

func (c *createFlags) run(ctx context.Context, a *command.App, args []string) error {
	if (c.spec.BackupName == "") == (c.spec.ScheduleName == "") {
		return errors.New("say what to restore from: --from-backup or --from-schedule, one of them")
	}
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	restore, err := c.build(cluster, args)
	if err != nil {
		return err
	}
	if err := c.checkSource(ctx, cluster, restore); err != nil {
		return err
	}
	if c.dryRun.On {
		return c.dryRun.Restore(ctx, a, cluster, restore, c.Form())
	}
	if printed, err := c.Print(a.Out, restore); printed {
		return err
	}
	return runs.Create(ctx, a, cluster, runs.Restore(restore), c.wait, "choose another name")
}

// build returns the Restore that the flags describe.
func (c *createFlags) build(cluster *command.Cluster, args []string) (*velerov1.Restore, error) {
	restore := &velerov1.Restore{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Restore"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Labels: c.labels, Annotations: c.annotations},
		Spec:       c.spec,
	}
	if c.owners {
		metav1.SetMetaDataAnnotation(&restore.ObjectMeta, velerov1.OwnerReferencesAnnotation, "true")
	}
	if c.finalizers != nil {
		metav1.SetMetaDataAnnotation(&restore.ObjectMeta, velerov1.FinalizersAnnotation, strconv.FormatBool(*c.finalizers))
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
		spec.RestoreStatus = &velerov1.RestoreStatusSpec{IncludedResources: c.statusIncludes,
			ExcludedResources: c.statusExcludes}
	}
	if c.modifiers != "" {
		spec.ResourceModifier = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: c.modifiers}
	}
	if c.policy != "" {
		spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: c.policy}
	}
	if c.writeSparse != nil || c.parallelFiles > 0 {
		spec.UploaderConfig = &velerov1.UploaderConfigForRestore{WriteSparseFiles: c.writeSparse,
			ParallelFilesDownload: c.parallelFiles}
	}
	return restore, nil
}

// checkSource returns an error if there is no backup to restore from. With --allow-partially-failed it chooses the
// newest backup of the schedule itself, since the server takes Completed ones only.
func (c *createFlags) checkSource(ctx context.Context, cluster *command.Cluster, restore *velerov1.Restore) error {
	if name := restore.Spec.BackupName; name != "" {
		var b velerov1.Backup
		if err := cluster.Get(ctx, cluster.Key(name), &b); err != nil {
			return fmt.Errorf("--from-backup: %w", err)
		}
		return nil
	}
	var list velerov1.BackupList
	schedule := restore.Spec.ScheduleName
	if err := cluster.List(ctx, &list, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule)}); err != nil {
		return err
	}
	usable := slices.DeleteFunc(list.Items, func(b velerov1.Backup) bool {
		return b.Status.Phase != velerov1.BackupPhaseCompleted &&
			(!c.allowPartial || b.Status.Phase != velerov1.BackupPhasePartiallyFailed)
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

// oneConfigMap is the hint for users with two ConfigMaps.
const oneConfigMap = "write the rules of both into one ConfigMap"

func newCreateCommand(a *command.App) *cobra.Command {
	c := new(createFlags)
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
	command.AddOnce(f, &spec.BackupName, "from-backup", "backup to restore from", "create a restore for each backup")
	command.AddOnce(f, &spec.ScheduleName, "from-schedule", "schedule whose newest backup to restore from",
		"create a restore for each schedule")
	f.BoolVar(&c.allowPartial, "allow-partially-failed", false,
		"with --from-schedule: take a PartiallyFailed backup when it is the newest")
	f.StringSliceVar(&spec.IncludedNamespaces, "include-namespaces", nil,
		"namespaces to restore, names or patterns; all without it")
	f.StringSliceVar(&spec.ExcludedNamespaces, "exclude-namespaces", nil, "namespaces to leave out")
	f.Var(command.NewMappings(&spec.NamespaceMapping), "namespace-mappings",
		"namespaces to restore under another name, as FROM:TO,...")
	f.StringSliceVar(&spec.IncludedResources, "include-resources", nil, "resources to restore, as resource.group")
	f.StringSliceVar(&spec.ExcludedResources, "exclude-resources", nil, "resources to leave out")
	command.AddOptionalBool(f, &spec.IncludeClusterResources, "include-cluster-resources",
		"restore cluster-scoped resources")
	f.StringVar(&c.existing, "existing-resource-policy", "",
		"what to do with objects that exist and differ: none warns, update patches what can be changed")
	f.StringSliceVar(&c.statusIncludes, "status-include-resources", nil, "resources to restore the status of")
	f.StringSliceVar(&c.statusExcludes, "status-exclude-resources", nil, "resources not to restore the status of")
	c.selectors.Add(f)
	command.AddOptionalBool(f, &spec.RestorePVs, "restore-volumes", "restore volumes from snapshots")
	command.AddOptionalBool(f, &spec.PreserveNodePorts, "preserve-nodeports", "keep the node ports of services")
	f.BoolVar(&c.owners, "restore-owner-references", false,
		"restore the owners of objects, with the UIDs that the owners have in the cluster")
	command.AddOptionalBool(f, &c.finalizers, "restore-finalizers", "restore the finalizers of objects")
	f.DurationVar(&c.itemOperationsTimeout, "item-operation-timeout", 0,
		"how long asynchronous operations of plugins may take")
	command.AddOnce(f, &c.modifiers, "resource-modifier-configmap", "ConfigMap with resource modifiers", oneConfigMap)
	command.AddOnce(f, &c.policy, "resource-policies-configmap", "ConfigMap with filters per namespace and kind",
		oneConfigMap)
	command.AddOptionalBool(f, &c.writeSparse, "write-sparse-files", "write sparse files in volumes")
	f.IntVar(&c.parallelFiles, "parallel-files-download", 0, "files of a volume to download at once")
	f.StringToStringVar(&c.labels, "labels", nil, "labels of the restore")
	f.StringToStringVar(&c.annotations, "annotations", nil, "annotations of the restore")
	c.dryRun.Add(f, "restore")
	c.dryRun.AddDetails(f)
	runs.AddWait(f, &c.wait, "restore")
	c.Add(f, "restore")
	return cmd
}

// startOf returns the time when a backup was started, zero for one that was not.
func startOf(b *velerov1.Backup) time.Time {
	if b.Status.StartTimestamp == nil {
		return time.Time{}
	}
	return b.Status.StartTimestamp.Time
}
