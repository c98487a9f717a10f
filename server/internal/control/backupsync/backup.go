package backupsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// incompleteAnnotation marks a Backup whose PodVolumeBackups are not all created yet, so that the next server
// continues.
const incompleteAnnotation = ownAnnotations + "sync-incomplete"

// ownAnnotations is the prefix of the annotations that control a server. A stored backup may have annotations of the
// server that made it; they are omitted.
const ownAnnotations = "cleat.dev/"

// storedVolume is a PodVolumeBackup as stored in the bucket, including fields that this server does not define.
type storedVolume = map[string]any

// storedBackup is a Backup of the bucket as it is to be created in this cluster. It has all fields of its spec and
// status, including those that this server does not define.
type storedBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	storedFields

	ended *metav1.Time // nil if unknown
}

// storedFields are the fields of a Backup that stay as they are in the bucket.
type storedFields struct {
	Spec   map[string]json.RawMessage `json:"spec"`
	Status map[string]json.RawMessage `json:"status"`
}

// backup returns the Backup that velero-backup.json describes. An error is a reason to skip it.
func (p *pass) backup(ctx context.Context, name string, metadata []byte) (*storedBackup, reason, error) {
	var stored velerov1.Backup
	fresh := new(storedBackup)
	err := store.DecodeMetadata(metadata, &stored)
	if err == nil {
		err = store.DecodeMetadata(metadata, &fresh.storedFields)
	}
	if err != nil {
		return nil, invalid, err
	}
	switch {
	case stored.APIVersion != velerov1.SchemeGroupVersion.String() || stored.Kind != "Backup":
		return nil, invalid, fmt.Errorf("it is a %s of %s, want a Backup of %s", stored.Kind, stored.APIVersion,
			velerov1.SchemeGroupVersion)
	case stored.Name != name:
		return nil, invalid, fmt.Errorf("it is Backup %q, want the name of the directory", stored.Name)
	case stored.Status.Phase == velerov1.BackupPhaseFailedValidation:
		return nil, invalid, fmt.Errorf("its phase is %s, and such a backup is never stored", stored.Status.Phase)
	}
	if phase := run.BackupPhase(&stored); !phase.Terminal() || velerov1.IsDryRun(&stored) {
		if expires := stored.Status.Expiration; !run.BackupBusy(phase) || expires == nil || expires.After(p.Now()) {
			return nil, inProgress, fmt.Errorf("its phase is %s", phase)
		}
		// No controller works on it any more. It is created so that it can be deleted.
		if fresh.Status == nil {
			fresh.Status = map[string]json.RawMessage{}
		}
		fresh.Status["phase"] = quoted(string(velerov1.BackupPhasePartiallyFailed))
	}
	labels := maps.Clone(stored.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[velerov1.StorageLocationLabel] = velerov1.ValidLabelValue(p.location.Name)
	delete(labels, velerov1.GCFailureLabel)
	maps.DeleteFunc(stored.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, ownAnnotations) })
	fresh.TypeMeta, fresh.ObjectMeta = stored.TypeMeta, metav1.ObjectMeta{
		Namespace: p.Namespace, Name: name, Labels: labels, Annotations: stored.Annotations, OwnerReferences: p.owners(ctx,
			stored.OwnerReferences),
	}
	if fresh.Spec == nil {
		fresh.Spec = map[string]json.RawMessage{}
	}
	fresh.Spec["storageLocation"] = quoted(p.location.Name)
	fresh.ended = stored.Status.CompletionTimestamp
	return fresh, 0, nil
}

// quoted returns text as JSON.
func quoted(text string) json.RawMessage {
	encoded, _ := json.Marshal(text) // has no errors
	return encoded
}

// create creates a Backup, and returns its UID.
func (p *pass) create(ctx context.Context, b *storedBackup) (types.UID, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	reply, err := p.API.Do(ctx, kubeapi.Request{
		Method: http.MethodPost, Resource: velerov1.SchemeGroupVersion.WithResource("backups"), Namespace: b.Namespace,
		ContentType: kubeapi.JSON, Body: body, Accept: kubeapi.Metadata,
	})
	if err != nil {
		return "", err
	}
	var created metav1.PartialObjectMetadata
	if err := json.Unmarshal(reply.Body, &created); err != nil {
		return "", fmt.Errorf("decode the reply to the creation of Backup %s: %w", b.Name, err)
	}
	return created.UID, nil
}

// owners returns the owners of a backup that exist in this cluster: Schedules with the same UID. Kubernetes deletes an
// object whose owners do not exist.
func (p *pass) owners(ctx context.Context, stored []metav1.OwnerReference) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, owner := range stored {
		var schedule velerov1.Schedule
		if owner.Kind == "Schedule" && owner.APIVersion == velerov1.SchemeGroupVersion.String() &&
			p.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: owner.Name}, &schedule) == nil &&
			schedule.UID == owner.UID {
			kept = append(kept, owner)
		}
	}
	return kept
}

// storedVolumes calls each for the PodVolumeBackups of a backup. Its error is store.ErrDamaged unless all of them can
// be created.
func (p *pass) storedVolumes(ctx context.Context, name string, each func(storedVolume) error) error {
	i := 0
	for volume, err := range store.PodVolumeBackups[storedVolume](ctx, p.objects, name) {
		if err == nil && (&unstructured.Unstructured{Object: volume}).GetName() == "" {
			err = fmt.Errorf("%w: decode PodVolumeBackups of %q: /%d: it has no metadata.name, want a PodVolumeBackup",
				store.ErrDamaged, name, i)
		}
		if err == nil {
			err = each(volume)
		}
		if err != nil {
			return err
		}
		i++
	}
	return nil
}

// countVolumes returns the number of PodVolumeBackups of a backup, or 0 if their file is damaged.
func (p *pass) countVolumes(ctx context.Context, name string) (n int, err error) {
	err = p.storedVolumes(ctx, name, func(storedVolume) error { n++; return nil })
	if errors.Is(err, store.ErrDamaged) {
		p.log.Warn("the PodVolumeBackups of a backup cannot be read, so they are not created", "backup", name, "error", err)
		return 0, nil
	}
	return n, err
}

// bringVolumes creates the PodVolumeBackups of a Backup, and then removes incompleteAnnotation.
func (p *pass) bringVolumes(ctx context.Context, name string, uid types.UID) error {
	var away error // the API server
	seen := 0
	err := p.storedVolumes(ctx, name, func(volume storedVolume) error {
		if seen++; seen > maxVolumes {
			return fmt.Errorf("%w: a backup has at most %d PodVolumeBackups", store.ErrDamaged, maxVolumes)
		}
		object, err := p.volume(volume, name, uid)
		if err != nil {
			p.log.Warn("a PodVolumeBackup of a backup is not created", "backup", name, "podVolumeBackup",
				shorten.Text(object.GetName(), maxShown), "because", err)
			return nil
		}
		switch err := p.Create(ctx, object); {
		case err == nil || apierrors.IsAlreadyExists(err):
		case kubeapi.Transient(err) || ctx.Err() != nil:
			away = fmt.Errorf("create PodVolumeBackup %s of backup %s: %w", object.GetName(), name, err)
		default:
			p.log.Warn("a PodVolumeBackup of a backup was refused", "backup", name, "podVolumeBackup", object.GetName(), "error",
				err)
		}
		return away
	})
	switch {
	case away != nil:
		return away
	case errors.Is(err, store.ErrDamaged):
		p.log.Warn("the PodVolumeBackups of a backup cannot be read beyond this one, so no more are created", "backup", name,
			"error", err)
	case err != nil && p.objects.Validate(ctx) != nil:
		return err
	case err != nil:
		p.log.Warn("the PodVolumeBackups of a backup cannot be read; the next attempt follows", "backup", name, "error", err)
		return nil
	}
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, uid, incompleteAnnotation)
	err = p.Patch(ctx, b, client.RawPatch(types.MergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("write annotation %s of Backup %s: %w", incompleteAnnotation, name, err)
	}
	return nil
}

// maxVolumes is the maximum number of PodVolumeBackups that are created for a backup. maxShown is the maximum length
// in bytes of a foreign name in a log.
const (
	maxVolumes = 10_000
	maxShown   = 100
)

// volume returns a PodVolumeBackup as it is to be created in this cluster. As in Velero, it belongs to the new Backup.
// Only one that has ended is created, because any other is work for node agents. The error is the reason why it must
// not be created.
func (p *pass) volume(stored storedVolume, backup string, uid types.UID) (*unstructured.Unstructured, error) {
	from := &unstructured.Unstructured{Object: stored}
	spec, found, errSpec := unstructured.NestedMap(stored, "spec")
	status, _, errStatus := unstructured.NestedMap(stored, "status")
	phase, _, errPhase := unstructured.NestedString(stored, "status", "phase")
	if err := errors.Join(errSpec, errStatus, errPhase); err != nil {
		return from, err
	}
	if !found {
		return from, errors.New("it has no spec")
	}
	kind := velerov1.SchemeGroupVersion.WithKind("PodVolumeBackup")
	if is := from.GroupVersionKind(); !is.Empty() && is != kind { // Velero stores it without a kind
		return from, fmt.Errorf("it is a %s of %s, want a PodVolumeBackup of %s", is.Kind, is.GroupVersion(),
			kind.GroupVersion())
	}
	if problems := validation.IsDNS1123Subdomain(from.GetName()); len(problems) > 0 {
		return from, fmt.Errorf("its name is not one of an object: %s", problems[0])
	}
	if !velerov1.LoadPhase(phase).Terminal() {
		return from, fmt.Errorf("its phase is %q, want %s, %s or %s: loads from a bucket are not carried out",
			shorten.Text(phase, maxShown), velerov1.LoadPhaseCompleted, velerov1.LoadPhaseFailed, velerov1.LoadPhaseCanceled)
	}
	delete(spec, "cancel")
	fresh := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
	fresh.SetGroupVersionKind(kind)
	fresh.SetNamespace(p.Namespace)
	fresh.SetName(from.GetName())
	annotations, labels := from.GetAnnotations(), from.GetLabels()
	for _, all := range []map[string]string{annotations, labels} {
		maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, ownAnnotations) })
	}
	delete(labels, velerov1.AsyncOperationIDLabel) // operations in progress find their loads by it
	for label, value := range map[string]string{velerov1.BackupNameLabel: velerov1.ValidLabelValue(backup),
		velerov1.BackupUIDLabel: string(uid)} {
		if labels[label] != "" {
			labels[label] = value
		}
	}
	fresh.SetAnnotations(annotations)
	fresh.SetLabels(labels)
	fresh.SetOwnerReferences(
		[]metav1.OwnerReference{velerov1.ControllerRef("Backup", &metav1.ObjectMeta{Name: backup, UID: uid})},
	)
	spec["backupStorageLocation"] = p.location.Name
	return fresh, nil
}
