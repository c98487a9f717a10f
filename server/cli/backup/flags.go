package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/control/backups"
	"github.com/cleat-dev/cleat/server/internal/control/schedules"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

// SpecFlags are the flags that describe a backup, or the template of a schedule.
type SpecFlags struct {
	spec                                   velerov1.BackupSpec
	selectors                              command.LabelSelectors
	Labels, Annotations                    map[string]string
	ordered, policies                      string
	parallelFiles                          int
	ttl, csiTimeout, itemOperationsTimeout time.Duration
	command.PrintFlag
}

// Add adds the flags of a command that creates an object of the given kind.
func (c *SpecFlags) Add(f *pflag.FlagSet, kind string) {
	spec := &c.spec
	f.DurationVar(&c.ttl, "ttl", 0, "how long to keep the backup; 0 for the server's default")
	f.StringSliceVar(&spec.IncludedNamespaces, "include-namespaces", nil,
		"namespaces to back up, names or patterns; all without it")
	f.StringSliceVar(&spec.ExcludedNamespaces, "exclude-namespaces", nil, "namespaces to leave out")
	f.StringSliceVar(&spec.IncludedResources, "include-resources", nil, "resources to back up, as resource.group")
	f.StringSliceVar(&spec.ExcludedResources, "exclude-resources", nil, "resources to leave out")
	f.StringSliceVar(&spec.IncludedClusterScopedResources, "include-cluster-scoped-resources", nil,
		"cluster-scoped resources to back up")
	f.StringSliceVar(&spec.ExcludedClusterScopedResources, "exclude-cluster-scoped-resources", nil,
		"cluster-scoped resources to leave out")
	f.StringSliceVar(&spec.IncludedNamespaceScopedResources, "include-namespace-scoped-resources", nil,
		"namespaced resources to back up")
	f.StringSliceVar(&spec.ExcludedNamespaceScopedResources, "exclude-namespace-scoped-resources", nil,
		"namespaced resources to leave out")
	command.AddOptionalBool(f, &spec.IncludeClusterResources, "include-cluster-resources",
		"back up cluster-scoped resources")
	f.StringToStringVar(&c.Labels, "labels", nil, "labels of the "+kind)
	f.StringToStringVar(&c.Annotations, "annotations", nil, "annotations of the "+kind)
	f.StringVar(&spec.StorageLocation, StorageLocation, "", "where to store the backup; empty for the default location")
	f.StringSliceVar(&spec.VolumeSnapshotLocations, "volume-snapshot-locations", nil, "where to store volume snapshots")
	c.selectors.Add(f)
	command.AddOnce(f, &c.ordered, "ordered-resources",
		"what to back up first, as RESOURCE=NAMESPACE/NAME,...;RESOURCE=...",
		"write both into one, with a semicolon between them")
	f.DurationVar(&c.csiTimeout, "csi-snapshot-timeout", 0, "how long to wait for a CSI snapshot")
	f.DurationVar(&c.itemOperationsTimeout, "item-operation-timeout", 0,
		"how long asynchronous operations of plugins may take")
	command.AddOptionalBool(f, &spec.SnapshotVolumes, "snapshot-volumes", "take snapshots of volumes")
	command.AddOptionalBool(f, &spec.SnapshotMoveData, "snapshot-move-data",
		"move the data of snapshots to the backup storage")
	f.StringVar(&spec.DataMover, "data-mover", "", "data mover to use")
	command.AddOptionalBool(f, &spec.DefaultVolumesToFsBackup, "default-volumes-to-fs-backup",
		"back up all volumes of pods from the file system")
	command.AddOnce(f, &c.policies, "resource-policies-configmap", "ConfigMap with resource policies",
		"write the rules of both into one ConfigMap")
	f.IntVar(&c.parallelFiles, "parallel-files-upload", 0, "files of a volume to upload at once")
	c.PrintFlag.Add(f, kind)
}

// Build returns the spec that the flags describe.
func (c *SpecFlags) Build() (spec velerov1.BackupSpec, err error) {
	spec = c.spec
	spec.TTL.Duration, spec.CSISnapshotTimeout.Duration, spec.ItemOperationTimeout.Duration = c.ttl, c.csiTimeout,
		c.itemOperationsTimeout
	if spec.LabelSelector, spec.OrLabelSelectors, err = c.selectors.Parse(); err != nil {
		return spec, err
	}
	if spec.OrderedResources, err = parseOrdered(c.ordered); err != nil {
		return spec, err
	}
	if err := errors.Join(
		command.CheckNotNegative("ttl", c.ttl), command.CheckNotNegative("csi-snapshot-timeout", c.csiTimeout),
		command.CheckNotNegative("item-operation-timeout", c.itemOperationsTimeout),
		command.CheckNotNegative("parallel-files-upload", c.parallelFiles)); err != nil {
		return spec, err
	}
	if c.policies != "" {
		spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: c.policies}
	}
	if c.parallelFiles > 0 {
		spec.UploaderConfig = &velerov1.UploaderConfigForBackup{ParallelFilesUpload: c.parallelFiles}
	}
	return spec, nil
}

// CheckSpec returns an error for a spec that the server would refuse.
func (c *SpecFlags) CheckSpec() error {
	spec, err := c.Build()
	if err != nil {
		return err
	}
	if problems := backups.CheckSpec(&spec); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// CheckObjects returns an error if flags name objects that do not exist, or that the server would refuse.
func (c *SpecFlags) CheckObjects(ctx context.Context, cluster *command.Cluster) error {
	errs := []error{
		command.CheckConfigMap(ctx, cluster, "resource-policies-configmap", c.policies, resourcepolicy.Parse),
	}
	for _, name := range c.spec.VolumeSnapshotLocations {
		errs = append(errs, cluster.CheckExists(ctx, "volume-snapshot-locations", "volume snapshot location", name,
			new(velerov1.VolumeSnapshotLocation)))
	}
	return errors.Join(append(errs, cluster.CheckExists(ctx, StorageLocation, "backup storage location",
		c.spec.StorageLocation, new(velerov1.BackupStorageLocation)))...)
}

// StorageLocation is the flag that names the location of a backup.
const StorageLocation = "storage-location"

// NewFlags are the flags that describe a new backup: its spec, or the schedule that has it.
type NewFlags struct {
	SpecFlags
	fromSchedule string
}

// AddTo adds the flags.
func (c *NewFlags) AddTo(f *pflag.FlagSet) {
	c.Add(f, "backup")
	f.StringVar(&c.fromSchedule, "from-schedule", "", "take the spec from the template of a schedule")
}

// New returns the Backup that the flags describe. With --from-schedule, the template of the schedule is its spec, and
// without a name it has the one that the schedule would give it.
func (c *NewFlags) New(ctx context.Context, cluster *command.Cluster, name string) (*velerov1.Backup, error) {
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
	if name != "" {
		backup.Name = name
	}
	if backup.Name == "" {
		return nil, errors.New("the backup has no name: cleat backup create NAME")
	}
	return backup, nil
}

// fromTemplate replaces backup by one that the schedule would create now. The labels and annotations of backup stay.
func (c *NewFlags) fromTemplate(ctx context.Context, cluster *command.Cluster, backup *velerov1.Backup) error {
	var schedule velerov1.Schedule
	if err := cluster.Get(ctx, cluster.Key(c.fromSchedule), &schedule); err != nil {
		return &command.FlagError{Flag: "from-schedule", Err: err}
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

// CheckFromSchedule returns an error for flags that contradict --from-schedule, as FlagError. Velero's command ignores
// them. The spec is not described by flags that are inherited, or named in besides.
func CheckFromSchedule(set, inherited *pflag.FlagSet, besides ...string) error {
	f := set.Lookup("from-schedule")
	if !f.Changed {
		return nil
	}
	if strings.TrimSpace(f.Value.String()) == "" {
		return &command.FlagError{Flag: f.Name, Err: errors.New("it has no value: want the name of a schedule")}
	}
	if wrong := otherThan(set, inherited, append(besides, f.Name)...); len(wrong) > 0 {
		return &command.FlagError{Flag: f.Name,
			Err: fmt.Errorf("it takes the spec of the schedule, so leave out %s", strings.Join(wrong, ", "))}
	}
	return nil
}

// otherThan returns the flags of a new backup that are set and concern its spec, other than the given ones.
func otherThan(flags, inherited *pflag.FlagSet, names ...string) (set []string) {
	flags.Visit(func(f *pflag.Flag) {
		fits := slices.Contains(names, f.Name) || slices.Contains([]string{"wait", "labels", "annotations", "output"}, f.Name)
		if !fits && inherited.Lookup(f.Name) == nil {
			set = append(set, "--"+f.Name)
		}
	})
	return set
}

// parseOrdered parses a text such as "pods=ns/a,ns/b;persistentvolumes=c".
func parseOrdered(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	ordered := make(map[string]string)
	for entry := range strings.SplitSeq(text, ";") {
		resource, names, ok := strings.Cut(entry, "=")
		resource, names = strings.TrimSpace(resource), strings.TrimSpace(names)
		if !ok || resource == "" || names == "" {
			return nil, &command.FlagError{Flag: "ordered-resources",
				Err: fmt.Errorf("%q: want RESOURCE=NAMESPACE/NAME,NAME;RESOURCE=NAME", entry)}
		}
		if former, twice := ordered[resource]; twice {
			return nil, &command.FlagError{Flag: "ordered-resources",
				Err: fmt.Errorf("%s is there twice, want %s=%s,%s", resource, resource, former, names)}
		}
		ordered[resource] = names
	}
	return ordered, nil
}
