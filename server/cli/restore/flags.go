package restore

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/spec/modifiers"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

// NewFlags are the flags that describe a new restore.
type NewFlags struct {
	spec                           velerov1.RestoreSpec
	selectors                      command.LabelSelectors
	labels, annotations            map[string]string
	existing, modifiers, policy    string
	statusIncludes, statusExcludes []string
	writeSparse                    *bool
	parallelFiles                  int
	itemOperationsTimeout          time.Duration
	allowPartial                   bool
	owners, skipModifiers          bool
	finalizers                     *bool
}

// oneConfigMap is the hint for users with two ConfigMaps.
const oneConfigMap = "write the rules of both into one ConfigMap"

// AddTo adds the flags.
func (c *NewFlags) AddTo(f *pflag.FlagSet) {
	spec := &c.spec
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
	f.BoolVar(&c.skipModifiers, "skip-default-resource-modifier", false,
		"do without the resource modifiers that the server has for restores that name none")
	command.AddOnce(f, &c.policy, "resource-policies-configmap", "ConfigMap with filters per namespace and kind",
		oneConfigMap)
	command.AddOptionalBool(f, &c.writeSparse, "write-sparse-files", "write sparse files in volumes")
	f.IntVar(&c.parallelFiles, "parallel-files-download", 0, "files of a volume to download at once")
	f.StringToStringVar(&c.labels, "labels", nil, "labels of the restore")
	f.StringToStringVar(&c.annotations, "annotations", nil, "annotations of the restore")
}

// DefaultName returns the name of a new restore from a backup or schedule.
func DefaultName(source string) string { return source + "-" + time.Now().Format("20060102150405") }

// New returns the Restore that the flags describe. Without a name it has the default one.
func (c *NewFlags) New(namespace, name string) (*velerov1.Restore, error) {
	restore := &velerov1.Restore{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Restore"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: c.labels, Annotations: c.annotations},
		Spec:       c.spec,
	}
	if c.owners {
		metav1.SetMetaDataAnnotation(&restore.ObjectMeta, velerov1.OwnerReferencesAnnotation, "true")
	}
	if c.finalizers != nil {
		metav1.SetMetaDataAnnotation(&restore.ObjectMeta, velerov1.FinalizersAnnotation, strconv.FormatBool(*c.finalizers))
	}
	spec := &restore.Spec
	restore.Name = cmp.Or(name, DefaultName(cmp.Or(spec.BackupName, spec.ScheduleName)))
	var err error
	if spec.LabelSelector, spec.OrLabelSelectors, err = c.selectors.Parse(); err != nil {
		return nil, err
	}
	if err := errors.Join(command.CheckNotNegative("item-operation-timeout", c.itemOperationsTimeout),
		command.CheckNotNegative("parallel-files-download", c.parallelFiles)); err != nil {
		return nil, err
	}
	spec.ItemOperationTimeout.Duration = c.itemOperationsTimeout
	spec.ExistingResourcePolicy = velerov1.PolicyType(c.existing)
	if c.skipModifiers {
		spec.SkipDefaultResourceModifier = &c.skipModifiers
	}
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

// CheckObjects returns an error if flags name ConfigMaps that do not exist, or that the server would refuse.
func (c *NewFlags) CheckObjects(ctx context.Context, cluster *command.Cluster) error {
	return errors.Join(
		command.CheckConfigMap(ctx, cluster, "resource-modifier-configmap", c.modifiers, modifiers.Parse),
		command.CheckConfigMap(ctx, cluster, "resource-policies-configmap", c.policy, resourcepolicy.ParseForRestore))
}
