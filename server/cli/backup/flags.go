package backup

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
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
	f.StringVar(&spec.StorageLocation, "storage-location", "", "where to store the backup; empty for the default location")
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
	if c.policies != "" {
		spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: c.policies}
	}
	if c.parallelFiles > 0 {
		spec.UploaderConfig = &velerov1.UploaderConfigForBackup{ParallelFilesUpload: c.parallelFiles}
	}
	return spec, nil
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
			return nil, fmt.Errorf("--ordered-resources: %q: want RESOURCE=NAMESPACE/NAME,NAME;RESOURCE=NAME", entry)
		}
		if former, twice := ordered[resource]; twice {
			return nil, fmt.Errorf("--ordered-resources: %s is there twice, want %s=%s,%s", resource, resource, former, names)
		}
		ordered[resource] = names
	}
	return ordered, nil
}
