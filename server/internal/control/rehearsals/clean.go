package rehearsals

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// volumePatience is how long a rehearsal waits for the end of its volumes after that of its namespaces.
const volumePatience = 2 * time.Minute

// clean deletes what a rehearsal has made, and ends it when all is gone. Each call takes one step.
func (r *Controller) clean(ctx context.Context, restore *velerov1.Restore, s state) (ctrl.Result, error) {
	if active := !ended(restore) && run.RestorePhase(restore) != velerov1.RestorePhaseNew; active &&
		restore.DeletionTimestamp == nil {
		return ctrl.Result{RequeueAfter: pollPause}, nil // its end is near: it was cancelled
	}
	if restore.DeletionTimestamp != nil && len(restore.Finalizers) > 1 {
		return ctrl.Result{RequeueAfter: pollPause}, nil // the run is stopped before
	}
	left, err := cleaner{r.Client, r.Live, r.Proofs}.clean(ctx, restore.UID, slices.Collect(maps.Values(s.Namespaces)))
	if err != nil {
		return ctrl.Result{}, err
	}
	if left.namespaces > 0 {
		since := s.Cleaning
		if since.IsZero() {
			since = r.Now()
		}
		what := fmt.Sprintf("the end of %d namespaces of the rehearsal", left.namespaces)
		err := r.note(ctx, restore, what, left.why, since)
		return ctrl.Result{RequeueAfter: pollPause}, err
	}
	if len(left.volumes) > 0 && !s.Cleaning.IsZero() && r.Now().Sub(s.Cleaning) < volumePatience {
		err := r.note(ctx, restore, "the end of volumes of the rehearsal", left.volumes[0], s.Cleaning)
		return ctrl.Result{RequeueAfter: pollPause}, err
	}
	s.Left = left.volumes
	for _, text := range s.Left {
		r.Log.Warn("a rehearsal has left a volume, which people have to delete", "restore", restore.Name, "volume", text)
	}
	left.warn(r.Log)
	return again(r.done(ctx, restore, s))
}

// cleaner deletes what rehearsals have made.
type cleaner struct {
	client.Client
	live   client.Reader
	proofs Proofs
}

// left is what is still there of a rehearsal.
type left struct {
	namespaces int
	why        string   // they are not deleted yet
	volumes    []string // that are not deleted, each with the reason
	unproven   []string // namespaces that have its labels only
}

// warn reports the namespaces that stay because nothing proves that the server has made them.
func (l left) warn(log hclog.Logger) {
	if len(l.unproven) > 0 {
		log.Warn("namespaces have the labels of a rehearsal, and nothing proves that the server has made them, so they stay",
			"namespaces", l.unproven)
	}
}

// clean deletes what the rehearsal whose Restore has a UID has made, as far as it is not being deleted. It returns what
// is still there. named are the namespaces that the Restore names, if it exists.
func (c cleaner) clean(ctx context.Context, uid types.UID, named []string) (left, error) {
	var still left
	made, err := c.made(ctx, uid, named, &still)
	if err != nil {
		return still, err
	}
	if err := c.contents(ctx, made, uid); err != nil {
		return still, err
	}
	// The volumes come before the namespaces, whose deletion releases them.
	if err := c.volumes(ctx, made, string(uid), named, &still); err != nil {
		return still, err
	}
	for name, namespace := range made {
		still.namespaces++
		if namespace.DeletionTimestamp == nil {
			err := c.Delete(ctx, namespace, client.Preconditions{UID: new(namespace.UID)})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return still, fmt.Errorf("delete namespace %s: %w", name, err)
			}
			continue
		}
		for _, condition := range namespace.Status.Conditions {
			if condition.Status == corev1.ConditionTrue {
				still.why = name + ": " + condition.Message
			}
		}
	}
	return still, nil
}

// made returns the namespaces that the server has made for a rehearsal.
func (c cleaner) made(
	ctx context.Context, uid types.UID, named []string, still *left,
) (map[string]*corev1.Namespace, error) {
	var namespaces corev1.NamespaceList
	if err := c.live.List(ctx, &namespaces, client.MatchingLabels{velerov1.RehearsalLabel: string(uid),
		installationLabel: c.proofs.Namespace}); err != nil {
		return nil, fmt.Errorf("list the namespaces of the rehearsal: %w", err)
	}
	made := map[string]*corev1.Namespace{}
	for i := range namespaces.Items {
		namespace := &namespaces.Items[i]
		is, err := c.proofs.Made(ctx, uid, namespace)
		if err == nil && !is && slices.Contains(named, namespace.Name) {
			is, err = c.proofs.begun(ctx, uid, namespace)
		}
		switch {
		case err != nil:
			return nil, err
		case is:
			made[namespace.Name] = namespace
		default:
			still.unproven = append(still.unproven, namespace.Name)
		}
	}
	return made, nil
}

// rehearsalVolume is the annotation of a volume of a rehearsal: the UID of its Restore.
const rehearsalVolume = velerov1.RehearsalLabel

// boundByControllerAnnotation of a volume says that it was not made for its claim: Kubernetes has chosen it.
const boundByControllerAnnotation = "pv.kubernetes.io/bound-by-controller"

// volumes makes the volumes that are bound to claims of the rehearsal end with these. A volume that is older than the
// namespace of its claim, or was chosen for the claim, was there before, and stays, with its data.
func (c cleaner) volumes(
	ctx context.Context, made map[string]*corev1.Namespace, uid string, named []string, still *left,
) error {
	const page = 500
	var list corev1.PersistentVolumeList
	for {
		err := c.live.List(ctx, &list, client.Limit(page), client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("list the persistent volumes: %w", err)
		}
		for i := range list.Items {
			volume := &list.Items[i]
			ref := volume.Spec.ClaimRef
			if ref == nil || made[ref.Namespace] == nil && !slices.Contains(named, ref.Namespace) {
				continue
			}
			if err := c.volume(ctx, volume, made[ref.Namespace], uid, still); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// volume makes a volume end with its claim in a namespace, nil if that has ended.
func (c cleaner) volume(
	ctx context.Context, volume *corev1.PersistentVolume, namespace *corev1.Namespace, uid string, still *left,
) error {
	if volume.Annotations[rehearsalVolume] == uid {
		why := fmt.Sprintf("persistent volume %s is %s", volume.Name, volume.Status.Phase)
		if volume.Status.Message != "" {
			why += ": " + volume.Status.Message
		}
		still.volumes = append(still.volumes, why)
		return nil
	}
	if namespace == nil {
		return nil
	}
	var claim corev1.PersistentVolumeClaim
	ref := volume.Spec.ClaimRef
	err := c.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &claim)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get persistent volume claim %s/%s: %w", ref.Namespace, ref.Name, err)
	case err == nil && ref.UID != "" && ref.UID != claim.UID: // it was bound to one before
		return nil
	}
	before := volume.DeepCopy()
	policy := corev1.PersistentVolumeReclaimDelete
	if volume.CreationTimestamp.Before(&namespace.CreationTimestamp) ||
		volume.Annotations[boundByControllerAnnotation] != "" {
		policy = corev1.PersistentVolumeReclaimRetain
	} else {
		metav1.SetMetaDataAnnotation(&volume.ObjectMeta, rehearsalVolume, uid)
		still.volumes = append(still.volumes, "persistent volume "+volume.Name+" is deleted with its claim")
	}
	volume.Spec.PersistentVolumeReclaimPolicy = policy
	err = c.Patch(ctx, volume, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("set the reclaim policy of persistent volume %s: %w", volume.Name, err)
	}
	return nil
}

// contents deletes the contents of CSI snapshots that were restored into the namespaces. The snapshots in the storage
// system stay.
func (c cleaner) contents(ctx context.Context, made map[string]*corev1.Namespace, uid types.UID) error {
	list := new(unstructured.UnstructuredList)
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1",
		Kind: "VolumeSnapshotContentList"})
	err := c.live.List(ctx, list, client.MatchingLabels{velerov1.RestoreUIDLabel: string(uid)})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the contents of the restored snapshots: %w", err)
	}
	for i := range list.Items {
		content := &list.Items[i]
		policy, _, _ := unstructured.NestedString(content.Object, "spec", "deletionPolicy")
		in, _, _ := unstructured.NestedString(content.Object, "spec", "volumeSnapshotRef", "namespace")
		if policy != "Retain" || made[in] == nil || content.GetDeletionTimestamp() != nil {
			continue
		}
		err := c.Delete(ctx, content, client.Preconditions{UID: new(content.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete volume snapshot content %s: %w", content.GetName(), err)
		}
	}
	return nil
}
