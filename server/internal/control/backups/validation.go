package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	labelkeys "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/validation"
	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

// Defaults are the values for the fields that a spec leaves empty.
type Defaults struct {
	TTL                      time.Duration
	ItemOperationTimeout     time.Duration
	CSISnapshotTimeout       time.Duration
	ResourceTimeout          time.Duration
	VolumeGroupSnapshotLabel string
	VolumesToFsBackup        bool
	SnapshotMoveData         bool
	StorageLocation          string            // for a cluster in which no location is marked as the default
	SnapshotLocations        map[string]string // by provider
	GlobalVolumePolicies     string            // ConfigMap with volume policies for all backups; empty for none
}

// backupVersion is the format version in the deprecated field status.version.
const backupVersion = 1

// prepared is what a valid spec refers to.
type prepared struct {
	location *velerov1.BackupStorageLocation // nil if there is none
	policy   *resourcepolicy.Policy          // nil if there is none
}

// prepare writes the defaults into the spec of a backup and validates it. It sets status.validationErrors. An error
// means that it could not validate the backup.
func (r *Controller) prepare(ctx context.Context, b *velerov1.Backup) (found prepared, err error) {
	r.setDefaults(b)
	b.Status.ValidationErrors = nil
	var problems, vslProblems, acceptProblems, policyProblems []string
	if found.location, problems, err = r.location(ctx, b); err != nil {
		return found, err
	}
	if vslProblems, err = r.snapshotLocations(ctx, b); err != nil {
		return found, err
	}
	if err := r.excludeLabelledNamespaces(ctx, b); err != nil {
		return found, err
	}
	if acceptProblems, err = r.checkAccepted(ctx, b); err != nil {
		return found, err
	}
	b.Status.ValidationErrors = slices.Concat(problems, vslProblems, CheckSpec(&b.Spec), acceptProblems)
	if len(b.Spec.IncludedNamespaces) == 0 {
		b.Spec.IncludedNamespaces = []string{"*"}
	}
	if found.policy, policyProblems, err = r.policy(ctx, b); err != nil {
		return found, err
	}
	if len(b.Status.ValidationErrors) == 0 {
		excludeSnapshots(&b.Spec)
	}
	b.Status.ValidationErrors = slices.Concat(b.Status.ValidationErrors, policyProblems)
	return found, nil
}

// away reports whether the location exists but cannot be used now. One of the problems then says so.
func (p prepared) away() bool { return p.location != nil && run.LocationProblem(p.location) != "" }

// refused reports whether a backup that was prepared can never be started, other than by waiting for its location.
func (p prepared) refused(b *velerov1.Backup) bool {
	problems := len(b.Status.ValidationErrors)
	if p.away() {
		problems--
	}
	return problems > 0
}

// excludeSnapshots excludes the objects of volume snapshots in the spec, as Velero does. The engine does not take that
// for a filter of the user.
func excludeSnapshots(spec *velerov1.BackupSpec) {
	const contents, snapshots = "volumesnapshotcontents.snapshot.storage.k8s.io", "volumesnapshots.snapshot.storage.k8s.io"
	exclude := func(list *[]string, resource string) {
		if !slices.Contains(*list, resource) && !slices.Contains(*list, "*") {
			*list = append(*list, resource)
		}
	}
	if usesOldFilters(spec) {
		exclude(&spec.ExcludedResources, snapshots)
		exclude(&spec.ExcludedResources, contents)
		return
	}
	exclude(&spec.ExcludedNamespaceScopedResources, snapshots)
	exclude(&spec.ExcludedClusterScopedResources, contents)
}

// usesOldFilters reports whether a spec uses the resource filters that do not distinguish scopes.
func usesOldFilters(spec *velerov1.BackupSpec) bool {
	return len(spec.IncludedResources) > 0 || len(spec.ExcludedResources) > 0 || spec.IncludeClusterResources != nil
}

// setDefaults sets the empty fields that depend on the server's configuration only.
func (r *Controller) setDefaults(b *velerov1.Backup) {
	d := r.Defaults
	b.Spec.TTL.Duration = cmp.Or(b.Spec.TTL.Duration, d.TTL)
	b.Spec.CSISnapshotTimeout.Duration = cmp.Or(b.Spec.CSISnapshotTimeout.Duration, d.CSISnapshotTimeout)
	b.Spec.ItemOperationTimeout.Duration = cmp.Or(b.Spec.ItemOperationTimeout.Duration, d.ItemOperationTimeout)
	b.Spec.VolumeGroupSnapshotLabelKey = cmp.Or(b.Spec.VolumeGroupSnapshotLabelKey, d.VolumeGroupSnapshotLabel)
	//nolint:staticcheck // deprecated, and still in objects that old clients make
	if old := b.Spec.DefaultVolumesToRestic; old != nil && *old {
		b.Spec.DefaultVolumesToFsBackup = old
	}
	if b.Spec.DefaultVolumesToFsBackup == nil {
		b.Spec.DefaultVolumesToFsBackup = new(d.VolumesToFsBackup)
	}
	if b.Spec.SnapshotMoveData == nil {
		b.Spec.SnapshotMoveData = new(d.SnapshotMoveData)
	}
	b.Status.Version = backupVersion //nolint:staticcheck // deprecated, and still read by old clients
	b.Status.FormatVersion = archive.FormatVersion
	b.Status.Expiration = run.Timestamp(r.Now().Add(b.Spec.TTL.Duration))
}

// describeCluster sets the annotations that describe the cluster.
func (r *Controller) describeCluster(ctx context.Context, b *velerov1.Backup) error {
	info, err := r.ServerVersion(ctx)
	if err != nil {
		return fmt.Errorf("get the version of the API server: %w", err)
	}
	if b.Annotations == nil {
		b.Annotations = make(map[string]string)
	}
	maps.Copy(b.Annotations, map[string]string{
		velerov1.SourceClusterK8sGitVersionAnnotation:   info.String(),
		velerov1.SourceClusterK8sMajorVersionAnnotation: info.Major,
		velerov1.SourceClusterK8sMinorVersionAnnotation: info.Minor,
		velerov1.ResourceTimeoutAnnotation:              r.Defaults.ResourceTimeout.String(),
	})
	return nil
}

// ServerVersion returns the version of the API server.
type ServerVersion func(ctx context.Context) (*version.Info, error)

// location returns the location of a backup, with the default set, and its problems.
func (r *Controller) location(
	ctx context.Context, b *velerov1.Backup,
) (*velerov1.BackupStorageLocation, []string, error) {
	origin := "named in spec.storageLocation"
	if b.Spec.StorageLocation == "" {
		origin = "the server's default"
		var list velerov1.BackupStorageLocationList
		if err := r.List(ctx, &list, client.InNamespace(b.Namespace)); err != nil {
			return nil, nil, fmt.Errorf("list backup storage locations: %w", err)
		}
		b.Spec.StorageLocation = run.DefaultLocation(list.Items, r.Defaults.StorageLocation)
	}
	name := b.Spec.StorageLocation
	if err := kubeapi.CheckName("spec.storageLocation", name); err != nil {
		return nil, []string{err.Error()}, nil
	}
	if b.Labels == nil {
		b.Labels = make(map[string]string)
	}
	b.Labels[velerov1.StorageLocationLabel] = velerov1.ValidLabelValue(name)

	location, err := r.GetLocation(ctx, name)
	if errors.Is(err, run.ErrLocationNotFound) {
		return nil, []string{fmt.Sprintf("backup storage location %q, %s, does not exist in namespace %s; create it, or "+
			"name another", name, origin, b.Namespace)}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var problems []string
	if run.ReadOnly(location) {
		problems = append(problems, fmt.Sprintf("backup can't be created because backup storage location %s is currently "+
			"in read-only mode", name))
	}
	if problem := run.LocationProblem(location); problem != "" {
		problems = append(problems, "backup can't be created because "+problem)
	}
	return location, problems, nil
}

// snapshotLocations sets one VolumeSnapshotLocation for each provider that has any. It returns the problems.
func (r *Controller) snapshotLocations(ctx context.Context, b *velerov1.Backup) ([]string, error) {
	var list velerov1.VolumeSnapshotLocationList
	if err := r.List(ctx, &list, client.InNamespace(b.Namespace)); err != nil {
		return nil, fmt.Errorf("list volume snapshot locations: %w", err)
	}
	byName := make(map[string]string) // to provider
	byProvider := make(map[string][]string)
	for i := range list.Items {
		vsl := &list.Items[i]
		byName[vsl.Name] = vsl.Spec.Provider
		byProvider[vsl.Spec.Provider] = append(byProvider[vsl.Spec.Provider], vsl.Name)
	}

	var problems []string
	chosen := make(map[string]string) // provider to name
	for _, name := range b.Spec.VolumeSnapshotLocations {
		provider, ok := byName[name]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("volume snapshot location %q, named in spec.volumeSnapshotLocations, does "+
				"not exist in namespace %s", name, b.Namespace))
		case chosen[provider] != "" && chosen[provider] != name:
			problems = append(problems, fmt.Sprintf("more than one VolumeSnapshotLocation name specified for provider %s: %s; "+
				"unexpected name was %s", provider, name, chosen[provider]))
		default:
			chosen[provider] = name
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(byProvider)) {
		fallback := r.Defaults.SnapshotLocations[provider]
		switch names := byProvider[provider]; {
		case chosen[provider] != "":
		case len(names) == 1:
			chosen[provider] = names[0]
		case fallback == "":
			problems = append(problems, fmt.Sprintf("provider %s has more than one possible volume snapshot location, and "+
				"none were specified explicitly or as a default", provider))
		case !slices.Contains(names, fallback):
			problems = append(problems, fmt.Sprintf("the server's default volume snapshot location %q of provider %s does not "+
				"exist in namespace %s", fallback, provider, b.Namespace))
		default:
			chosen[provider] = fallback
		}
	}
	if len(problems) == 0 {
		b.Spec.VolumeSnapshotLocations = slices.Sorted(maps.Values(chosen))
	}
	return problems, nil
}

// excludeLabelledNamespaces adds the namespaces that are labelled to stay out of backups.
func (r *Controller) excludeLabelledNamespaces(ctx context.Context, b *velerov1.Backup) error {
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := r.Live.List(ctx, &namespaces, client.MatchingLabels{velerov1.ExcludeFromBackupLabel: "true"}); err != nil {
		return fmt.Errorf("list namespaces labelled %s=true: %w", velerov1.ExcludeFromBackupLabel, err)
	}
	for i := range namespaces.Items {
		if name := namespaces.Items[i].Name; !slices.Contains(b.Spec.ExcludedNamespaces, name) {
			b.Spec.ExcludedNamespaces = append(b.Spec.ExcludedNamespaces, name)
		}
	}
	return nil
}

// policy reads the resource policy that the spec refers to, and adds the volume policies for all backups; nil if there
// are neither. It returns what is wrong with them. The policy is for the engine only: the spec does not change.
func (r *Controller) policy(ctx context.Context, b *velerov1.Backup) (*resourcepolicy.Policy, []string, error) {
	rules, problems, err := validation.ReadConfigMap(ctx, r.Cluster, b.Namespace, "spec.resourcePolicy",
		b.Spec.ResourcePolicy, resourcepolicy.Parse)
	if err != nil {
		return nil, nil, err
	}
	if rules != nil && (rules.Resources != nil || !rules.Rules.Empty()) && usesOldFilters(&b.Spec) {
		problems = append(problems, fmt.Sprintf("the filters of resources in config map %s/%s cannot be used together with "+
			"includedResources, excludedResources and includeClusterResources; use the lists for cluster-scoped and "+
			"namespace-scoped resources", b.Namespace, b.Spec.ResourcePolicy.Name))
	}
	global, more, err := r.globalPolicy(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	problems = append(problems, more...)
	switch {
	case global == nil:
		return rules, problems, nil
	case rules == nil:
		rules = new(resourcepolicy.Policy)
	}
	// of which the first that applies counts
	rules.VolumePolicies = slices.Concat(rules.VolumePolicies, global.VolumePolicies)
	return rules, problems, nil
}

// globalPolicy reads the policy with the volume policies for all backups, and names it in an annotation of the backup.
func (r *Controller) globalPolicy(ctx context.Context, b *velerov1.Backup) (*resourcepolicy.Policy, []string, error) {
	name := r.Defaults.GlobalVolumePolicies
	if name == "" {
		return nil, nil, nil
	}
	policy, problems, err := validation.ReadConfigMap(ctx, r.Cluster, r.Namespace,
		"flag --global-backup-volume-policies-configmap of the server",
		&velerov1.TypedLocalObjectReference{Kind: configmap.Kind, Name: name}, resourcepolicy.Parse)
	if err != nil || policy == nil {
		return nil, problems, err
	}
	if policy.Resources != nil || !policy.Rules.Empty() {
		r.Log.Warn("the ConfigMap of --global-backup-volume-policies-configmap has filters of resources, which only apply "+
			"in the policy of one backup; they are ignored", "configMap", name)
	}
	if b.Annotations == nil {
		b.Annotations = make(map[string]string)
	}
	b.Annotations[velerov1.GlobalVolumePoliciesAnnotation] = name
	return policy, nil, nil
}

// CheckSpec returns the problems of a spec that do not depend on the cluster.
func CheckSpec(spec *velerov1.BackupSpec) []string {
	var problems []string
	newFilters := len(spec.IncludedClusterScopedResources) > 0 || len(spec.ExcludedClusterScopedResources) > 0 ||
		len(spec.IncludedNamespaceScopedResources) > 0 || len(spec.ExcludedNamespaceScopedResources) > 0
	if usesOldFilters(spec) && newFilters {
		problems = append(problems, "includedResources, excludedResources and includeClusterResources cannot be used "+
			"together with "+
			"includedClusterScopedResources, excludedClusterScopedResources, includedNamespaceScopedResources and "+
			"excludedNamespaceScopedResources; use one family of filters")
	}
	problems = slices.Concat(problems,
		validation.Prefixed("Invalid included/excluded resource lists: ", validation.CheckLists(spec.IncludedResources,
			spec.ExcludedResources)),
		validation.Prefixed("Invalid cluster-scoped included/excluded resource lists: ",
			validation.CheckScopedLists(spec.IncludedClusterScopedResources, spec.ExcludedClusterScopedResources)),
		validation.Prefixed("Invalid namespace-scoped included/excluded resource lists: ",
			validation.CheckScopedLists(spec.IncludedNamespaceScopedResources, spec.ExcludedNamespaceScopedResources)),
		validation.Prefixed("Invalid included/excluded namespace lists: ", slices.Concat(
			validation.CheckLists(spec.IncludedNamespaces, spec.ExcludedNamespaces),
			validation.CheckNamespaceNames(spec.IncludedNamespaces, spec.ExcludedNamespaces))),
		validation.CheckSelectors(spec.LabelSelector, spec.OrLabelSelectors))
	if policy := spec.ResourcePolicy; policy != nil && !strings.EqualFold(policy.Kind, "configmap") {
		problems = append(problems, fmt.Sprintf("resource policy of kind %q is not supported, want ConfigMap", policy.Kind))
	}
	if key := spec.VolumeGroupSnapshotLabelKey; key != "" {
		for _, problem := range labelkeys.IsQualifiedName(key) {
			problems = append(problems,
				fmt.Sprintf("volumeGroupSnapshotLabelKey %q is not the key of a label: %s", key, problem))
		}
	}
	return problems
}
