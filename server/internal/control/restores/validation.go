package restores

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	names "k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/validation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/modifiers"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

// source is the backup of a restore, with what the ConfigMaps say that apply.
type source struct {
	backup    *velerov1.Backup
	location  *velerov1.BackupStorageLocation
	modifiers *modifiers.Rules       // nil if there are none
	policy    *resourcepolicy.Policy // nil if there is none
	versions  plan.VersionPriorities
}

// prepare writes the defaults into the spec of a restore and validates it. It sets status.validationErrors. An error
// means that it could not validate the restore.
func (r *Controller) prepare(ctx context.Context, object *velerov1.Restore) (source, error) {
	object.Spec.ItemOperationTimeout.Duration = cmp.Or(object.Spec.ItemOperationTimeout.Duration, r.ItemOperationTimeout)
	problems := CheckSpec(&object.Spec)
	for _, resource := range plan.NonRestorableResources() {
		if !slices.Contains(object.Spec.ExcludedResources, resource) {
			object.Spec.ExcludedResources = append(object.Spec.ExcludedResources, resource)
		}
	}
	src, sourceProblems, err := r.source(ctx, object)
	if err != nil {
		return source{}, err
	}
	var modifierProblems []string
	namespace, field, ref := r.modifiersOf(object)
	src.modifiers, modifierProblems, err = validation.ReadConfigMap(ctx, r.Cluster, namespace, field, ref, modifiers.Parse)
	if err != nil {
		return source{}, err
	}
	var policyProblems []string
	src.policy, policyProblems, err = validation.ReadConfigMap(ctx, r.Cluster, object.Namespace, "spec.resourcePolicy",
		object.Spec.ResourcePolicy, resourcepolicy.ParseForRestore)
	if err != nil {
		return source{}, err
	}
	if src.versions, err = r.versionPriorities(ctx); err != nil {
		return source{}, err
	}
	for _, check := range []func(*velerov1.Restore) (bool, error){
		velerov1.RestoresOwnerReferences, velerov1.RestoresFinalizers,
	} {
		if _, err := check(object); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if r.Enclose != nil {
		enclosed, err := r.checkEnclosure(ctx, object)
		if err != nil {
			return source{}, err
		}
		problems = append(problems, enclosed...)
	}
	object.Status.ValidationErrors = slices.Concat(problems, sourceProblems, modifierProblems, policyProblems)
	return src, nil
}

// modifiersOf returns the reference to the resource modifiers of a restore, nil for none, and the field that has it:
// those of the spec, or else those of the server.
func (r *Controller) modifiersOf(
	object *velerov1.Restore,
) (namespace, field string, ref *velerov1.TypedLocalObjectReference) {
	spec := &object.Spec
	skip := spec.SkipDefaultResourceModifier != nil && *spec.SkipDefaultResourceModifier
	if spec.ResourceModifier != nil || skip || r.DefaultModifiers == "" {
		return object.Namespace, "spec.resourceModifier", spec.ResourceModifier
	}
	return r.Namespace, "flag --default-resource-modifier-configmap of the server",
		&velerov1.TypedLocalObjectReference{Kind: configmap.Kind, Name: r.DefaultModifiers}
}

// checkEnclosure returns the namespaces of a rehearsal that were not made for it.
func (r *Controller) checkEnclosure(ctx context.Context, object *velerov1.Restore) (problems []string, err error) {
	for _, name := range object.Spec.NamespaceMapping {
		var live corev1.Namespace
		err := r.Live.Get(ctx, client.ObjectKey{Name: name}, &live)
		made := false
		if err == nil {
			made, err = r.MadeFor(ctx, object.UID, &live)
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get namespace %s of the rehearsal: %w", name, err)
		}
		if !made {
			problems = append(problems, fmt.Sprintf("namespace %s was not made for this rehearsal", name))
		}
	}
	return problems, nil
}

// versionPriorities reads the ConfigMap with the versions that the user prefers, if the feature EnableAPIGroupVersions
// is on.
func (r *Controller) versionPriorities(ctx context.Context) (plan.VersionPriorities, error) {
	const name, key = "enableapigroupversions", "restoreResourcesVersionPriority"
	if !r.AllVersions {
		return nil, nil
	}
	cm := new(corev1.ConfigMap)
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, cm); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get config map %s/%s: %w", r.Namespace, name, err)
	}
	priorities, problems := plan.ParseVersionPriorities(cm.Data[key])
	for _, problem := range problems {
		r.Log.Warn("ignored a line of the ConfigMap with the preferred versions", "configMap", name, "key", key, "problem",
			problem)
	}
	return priorities, nil
}

// source returns the backup of a restore, the newest Completed one if the spec names a schedule, and its location.
func (r *Controller) source(ctx context.Context, restore *velerov1.Restore) (source, []string, error) {
	spec := &restore.Spec
	if (spec.BackupName == "") == (spec.ScheduleName == "") {
		return source{}, []string{"Either a backup or schedule must be specified as a source for the restore, but not both"},
			nil
	}
	if spec.ScheduleName != "" {
		if err := kubeapi.CheckName("spec.scheduleName", spec.ScheduleName); err != nil {
			return source{}, []string{err.Error()}, nil
		}
		name, err := r.newestOfSchedule(ctx, restore.Namespace, spec.ScheduleName)
		if err != nil {
			return source{}, nil, err
		}
		if name == "" {
			return source{}, []string{fmt.Sprintf("No completed backups found for schedule %s", spec.ScheduleName)}, nil
		}
		spec.BackupName = name
	}
	if err := kubeapi.CheckName("spec.backupName", spec.BackupName); err != nil {
		return source{}, []string{err.Error()}, nil
	}
	backup := new(velerov1.Backup)
	// The cache may not show that a deletion of the backup has begun.
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: spec.BackupName}, backup)
	if apierrors.IsNotFound(err) {
		return source{}, []string{fmt.Sprintf("backup %s/%s does not exist", restore.Namespace, spec.BackupName)}, nil
	}
	if err != nil {
		return source{}, nil, fmt.Errorf("get backup %s: %w", spec.BackupName, err)
	}
	if problem, err := r.unreadable(ctx, backup); problem != "" || err != nil {
		return source{}, []string{problem}, err
	}
	location, err := r.GetLocation(ctx, backup.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		return source{}, []string{fmt.Sprintf("backup storage location %q of backup %s does not exist",
			backup.Spec.StorageLocation, backup.Name)}, nil
	}
	if err != nil {
		return source{}, nil, err
	}
	if problem := run.LocationProblem(location); problem != "" {
		return source{location: location}, []string{"the backup cannot be read: " + problem}, nil
	}
	if problem, err := r.untrusted(ctx, restore, backup, location); problem != "" || err != nil {
		return source{location: location}, []string{problem}, err
	}
	spec.ScheduleName = cmp.Or(spec.ScheduleName, backup.Labels[velerov1.ScheduleNameLabel])
	if schedule := backup.Labels[velerov1.ScheduleNameLabel]; schedule != "" {
		if restore.Labels == nil {
			restore.Labels = make(map[string]string)
		}
		restore.Labels[velerov1.ScheduleNameLabel] = schedule
	}
	return source{backup: backup, location: location}, nil, nil
}

// untrusted returns why a backup must not be restored because of who has made it, and "" if it may be; see Trust.
func (r *Controller) untrusted(
	ctx context.Context, restore *velerov1.Restore, backup *velerov1.Backup, location *velerov1.BackupStorageLocation,
) (string, error) {
	if !r.Trust.demands(restore) {
		return "", nil
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return "", err
	}
	_, isRefused, err := r.Trust.guarded(ctx, restore, objects, backup, r.SpoolDir)
	if isRefused {
		return err.Error(), nil
	}
	return "", err
}

// unreadable returns why nothing can be restored from a backup, because of its phase, and "" if something can.
func (r *Controller) unreadable(ctx context.Context, backup *velerov1.Backup) (string, error) {
	if !run.SettledPhase(backup).Restorable() {
		return fmt.Sprintf("backup %s is in phase %s, want Completed or PartiallyFailed", backup.Name,
			run.BackupPhase(backup)), nil
	}
	if run.BackupPhase(backup) != velerov1.BackupPhaseDeleting {
		return "", nil
	}
	var requests velerov1.DeleteBackupRequestList
	if err := r.Live.List(ctx, &requests, client.InNamespace(backup.Namespace)); err != nil {
		return "", fmt.Errorf("list the requests to delete backup %s: %w", backup.Name, err)
	}
	for i := range requests.Items {
		request := &requests.Items[i]
		if request.Spec.BackupName == backup.Name && request.Status.Phase != velerov1.DeleteBackupRequestPhaseProcessed {
			return fmt.Sprintf("backup %s is being deleted, see DeleteBackupRequest %s", backup.Name, request.Name), nil
		}
	}
	return "", nil
}

// newestOfSchedule returns the name of the Completed backup of a schedule that was started last, or "".
func (r *Controller) newestOfSchedule(ctx context.Context, namespace, schedule string) (string, error) {
	var list velerov1.BackupList
	err := r.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule)})
	if err != nil {
		return "", fmt.Errorf("list the backups of schedule %s: %w", schedule, err)
	}
	completed := slices.DeleteFunc(list.Items, func(b velerov1.Backup) bool {
		return run.BackupPhase(&b) != velerov1.BackupPhaseCompleted
	})
	if len(completed) == 0 {
		return "", nil
	}
	newest := slices.MaxFunc(completed, func(a, b velerov1.Backup) int {
		return cmp.Or(started(&a).Compare(started(&b)), cmp.Compare(a.Name, b.Name))
	})
	return newest.Name, nil
}

func started(b *velerov1.Backup) time.Time {
	if b.Status.StartTimestamp == nil {
		return time.Time{}
	}
	return b.Status.StartTimestamp.Time
}

// CheckSpec returns the problems of a spec that do not depend on the cluster.
func CheckSpec(spec *velerov1.RestoreSpec) []string {
	var problems []string
	for _, resource := range plan.NonRestorableResources() {
		if slices.Contains(spec.IncludedResources, resource) {
			problems = append(problems, resource+" are non-restorable resources")
		}
	}
	problems = slices.Concat(problems,
		validation.Prefixed("Invalid included/excluded resource lists: ", validation.CheckLists(spec.IncludedResources,
			spec.ExcludedResources)),
		validation.Prefixed("Invalid included/excluded namespace lists: ", slices.Concat(
			validation.CheckLists(spec.IncludedNamespaces, spec.ExcludedNamespaces),
			validation.CheckNamespaceNames(spec.IncludedNamespaces, spec.ExcludedNamespaces))),
		validation.CheckSelectors(spec.LabelSelector, spec.OrLabelSelectors))
	if status := spec.RestoreStatus; status != nil {
		problems = append(problems, validation.Prefixed("Invalid included/excluded resource lists of restoreStatus: ",
			validation.CheckLists(status.IncludedResources, status.ExcludedResources))...)
	}
	for _, from := range slices.Sorted(maps.Keys(spec.NamespaceMapping)) {
		to := spec.NamespaceMapping[from]
		for _, name := range []string{from, to} {
			if len(names.IsDNS1123Label(name)) > 0 {
				problems = append(problems, fmt.Sprintf("Invalid namespaceMapping: %s to %s: %q is not the name of a namespace",
					from, to, name))
			}
		}
	}
	switch spec.ExistingResourcePolicy {
	case "", velerov1.PolicyTypeNone, velerov1.PolicyTypeUpdate:
	default:
		problems = append(problems, fmt.Sprintf("Invalid ExistingResourcePolicy: %s; want none or update",
			spec.ExistingResourcePolicy))
	}
	if modifier := spec.ResourceModifier; modifier != nil && !configmap.IsKind(modifier.Kind) {
		problems = append(problems, fmt.Sprintf("resource modifier of kind %q is not supported, want %s", modifier.Kind,
			configmap.Kind))
	}
	if policy := spec.ResourcePolicy; policy != nil && !configmap.IsKind(policy.Kind) {
		problems = append(problems, fmt.Sprintf("resource policy of kind %q is not supported, want %s", policy.Kind,
			configmap.Kind))
	}
	return append(problems, checkInitContainers(spec.Hooks.Resources)...)
}

// checkInitContainers returns the problems of the init containers of hooks.
func checkInitContainers(hooks []velerov1.RestoreResourceHookSpec) []string {
	var problems []string
	for _, hook := range hooks {
		for _, post := range hook.PostHooks {
			if post.Init == nil {
				continue
			}
			for i, raw := range post.Init.InitContainers {
				var container struct {
					Name    string
					Image   string
					Command []string
				}
				if err := json.Unmarshal(raw.Raw, &container); err != nil {
					problems = append(problems, fmt.Sprintf("hook %s: init container %d: %v", hook.Name, i, err))
					continue
				}
				if container.Name == "" || container.Image == "" || len(container.Command) == 0 {
					problems = append(problems, fmt.Sprintf("hook %s: init container %d: want name, image and command", hook.Name, i))
				}
			}
		}
	}
	return problems
}
