package csisnapshots

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
)

// Snapshots are the VolumeSnapshots of backups and restores.
type Snapshots struct {
	api       func() (snapshotclient.SnapshotV1Interface, error)
	groups    func() (*groupAPI, error)
	live      client.Reader
	objects   client.Writer
	namespace string // of the server
	keys      *loadkey.Keys
}

// New returns the snapshots of a cluster. The DataUploads of backups are in the server's namespace; live reads them,
// and objects writes them and their results. keys verify which contents backups have made. Callers of HandOver and
// Discard alone need the config only.
func New(
	config *rest.Config, live client.Reader, objects client.Writer, namespace string, keys *loadkey.Keys,
) Snapshots {
	api := sync.OnceValues(func() (snapshotclient.SnapshotV1Interface, error) {
		return snapshotclient.NewForConfig(config)
	})
	groups := func() (*groupAPI, error) { return newGroupAPI(config) }
	return Snapshots{api, groups, live, objects, namespace, keys}
}

// look returns a snapshot and its content, nil if it has none yet.
func (s Snapshots) look(
	ctx context.Context, namespace, name string,
) (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent, error) {
	api, err := s.api()
	if err != nil {
		return nil, nil, err
	}
	vs, err := api.VolumeSnapshots(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("get VolumeSnapshot %s/%s: %w", namespace, name, err)
	}
	bound := contentOf(vs)
	if bound == "" {
		return vs, nil, nil
	}
	content, err := contentFor(ctx, api, bound, types.NamespacedName{Namespace: namespace, Name: name}, vs.UID)
	if err != nil {
		return nil, nil, err
	}
	if content == nil {
		return nil, nil, fmt.Errorf("%w: VolumeSnapshotContent %s, which VolumeSnapshot %s/%s names, does not exist, or is "+
			"of another VolumeSnapshot", ErrNotTaken, bound, namespace, name)
	}
	if inGroup(content) && isComplete(content) {
		err = leaveGroup(ctx, api, content)
	}
	return vs, content, err
}

// contentFor returns a content if it is of a VolumeSnapshot, nil if it is of another one or does not exist. Who may create
// a VolumeSnapshot, or write its status, can name any content; the content names its only VolumeSnapshot. uid is that of the
// VolumeSnapshot, "" if it is not known.
func contentFor(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, name string, of types.NamespacedName, uid types.UID,
) (*snapshotv1.VolumeSnapshotContent, error) {
	content, err := api.VolumeSnapshotContents().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get VolumeSnapshotContent %s of VolumeSnapshot %s: %w", name, of, err)
	}
	ref := content.Spec.VolumeSnapshotRef
	if ref.Namespace != of.Namespace || ref.Name != of.Name || uid != "" && ref.UID != "" && ref.UID != uid {
		return nil, nil
	}
	return content, nil
}

// contentOf returns the name of the content of a snapshot, "" if there is none yet. A snapshot of a group names it
// before it is bound, which is not done as long as the content knows of the group.
func contentOf(vs *snapshotv1.VolumeSnapshot) string {
	if vs.Status != nil && vs.Status.BoundVolumeSnapshotContentName != nil {
		return *vs.Status.BoundVolumeSnapshotContentName
	}
	if vs.Annotations[velerov1.SnapshotOfClaimAnnotation] != "" && vs.Spec.Source.VolumeSnapshotContentName != nil {
		return *vs.Spec.Source.VolumeSnapshotContentName
	}
	return ""
}

// isReady reports whether volumes can be made of a snapshot.
func isReady(vs *snapshotv1.VolumeSnapshot) bool {
	return vs.Status != nil && vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse
}

// trouble returns the error that a controller or the driver reports for a snapshot, "" if there is none. They try
// again.
func trouble(vs *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent) string {
	message := func(e *snapshotv1.VolumeSnapshotError) string {
		if e == nil || e.Message == nil {
			return ""
		}
		return *e.Message
	}
	var of, more string
	if content != nil && content.Status != nil {
		of = message(content.Status.Error)
	}
	if vs.Status != nil {
		more = message(vs.Status.Error)
	}
	return cmp.Or(of, more)
}

func setPolicy(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, content string, policy snapshotv1.DeletionPolicy,
) error {
	return patchContent(ctx, api, content, map[string]any{"spec": map[string]any{"deletionPolicy": policy}})
}

func patchContent(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, content string, patch map[string]any,
) error {
	text, err := json.Marshal(patch)
	if err == nil {
		_, err = api.VolumeSnapshotContents().Patch(ctx, content, types.MergePatchType, text, metav1.PatchOptions{})
	}
	return err
}

// dropSnapshot deletes a VolumeSnapshot. It is no error that there is none.
func dropSnapshot(ctx context.Context, api snapshotclient.SnapshotV1Interface, name types.NamespacedName) error {
	err := api.VolumeSnapshots(name.Namespace).Delete(ctx, name.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete VolumeSnapshot %s: %w", name, err)
	}
	return nil
}

// drop deletes a VolumeSnapshot and its content. The storage system deletes its snapshot, unless keep is true. It is no
// error that they do not exist.
func (s Snapshots) drop(ctx context.Context, vs *snapshotv1.VolumeSnapshot, keep bool) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	of := types.NamespacedName{Namespace: vs.Namespace, Name: vs.Name}
	name := cmp.Or(contentOf(vs), "snapcontent-"+string(vs.UID)) // it exists before the snapshot refers to it
	source := vs.Spec.Source.VolumeSnapshotContentName
	if source != nil {
		name = *source
	}
	content, err := contentFor(ctx, api, name, of, vs.UID)
	switch {
	case err != nil:
		return err
	case content == nil:
	case source != nil || keep: // otherwise it is deleted with the snapshot, as its policy is Delete
		err = dropContent(ctx, api, content, keep)
	default:
		err = ignoreMissing(setPolicy(ctx, api, name, snapshotv1.VolumeSnapshotContentDelete))
	}
	if err != nil {
		return fmt.Errorf("VolumeSnapshotContent %s: %w", name, err)
	}
	return dropSnapshot(ctx, api, of)
}

// dropContent deletes a content. The storage system deletes the snapshot, unless keep is true. It is no error that
// there is none.
func dropContent(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, content *snapshotv1.VolumeSnapshotContent, keep bool,
) error {
	patch := map[string]any{"spec": map[string]any{"deletionPolicy": snapshotv1.VolumeSnapshotContentRetain}}
	if !keep { // by the annotation, the driver deletes it whether a VolumeSnapshot is bound to it or not
		patch = map[string]any{
			"spec":     map[string]any{"deletionPolicy": snapshotv1.VolumeSnapshotContentDelete},
			"metadata": map[string]any{"annotations": map[string]string{"snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes"}},
		}
	}
	var err error
	if !keep {
		err = leaveGroup(ctx, api, content)
	}
	if err == nil {
		err = patchContent(ctx, api, content.Name, patch)
	}
	if err == nil {
		err = api.VolumeSnapshotContents().Delete(ctx, content.Name, metav1.DeleteOptions{})
	}
	if ignoreMissing(err) != nil {
		return fmt.Errorf("delete VolumeSnapshotContent %s: %w", content.Name, err)
	}
	return nil
}

// forgetContent deletes the content of a name, if it is of a VolumeSnapshot. The storage system keeps the snapshot.
func forgetContent(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, name string, of types.NamespacedName,
) error {
	content, err := contentFor(ctx, api, name, of, "")
	if err != nil || content == nil {
		return err
	}
	return dropContent(ctx, api, content, true)
}

// Remove deletes all snapshots that were taken for the backup with a UID, also at the storage system, and cancels the
// DataUploads of others. It is no error if there are none.
func (s Snapshots) Remove(ctx context.Context, backup types.UID) error {
	if err := s.cancelUploads(ctx, backup); err != nil {
		return err
	}
	return s.settle(ctx, backup, func(*snapshotv1.VolumeSnapshot) bool { return false })
}

// Keep deletes the objects of all snapshots of a stored backup. The storage system keeps the snapshots that are ready,
// except those whose data was to be moved: they are of no use after the data was moved, or could not be. Snapshots that
// are not ready are of no use either.
func (s Snapshots) Keep(ctx context.Context, backup types.UID) error {
	return s.settle(ctx, backup, func(vs *snapshotv1.VolumeSnapshot) bool {
		return isReady(vs) && vs.Labels[velerov1.AsyncOperationIDLabel] == ""
	})
}

func (s Snapshots) settle(ctx context.Context, backup types.UID, keep func(*snapshotv1.VolumeSnapshot) bool) error {
	failed := []error{s.removeGroups(ctx, backup), s.removeUnbound(ctx, backup)}
	err := s.each(ctx, velerov1.BackupUIDLabel, backup, func(vs *snapshotv1.VolumeSnapshot) {
		failed = append(failed, s.drop(ctx, vs, keep(vs)))
	})
	return errors.Join(append(failed, err)...)
}

// each calls use for all snapshots with a UID in a label.
func (s Snapshots) each(ctx context.Context, label string, uid types.UID, use func(*snapshotv1.VolumeSnapshot)) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	options := metav1.ListOptions{LabelSelector: label + "=" + string(uid), Limit: 500}
	for {
		list, err := api.VolumeSnapshots("").List(ctx, options)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			// without definition, or without the right to take snapshots, there are none
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the VolumeSnapshots with the label %s=%s: %w", label, uid, err)
		}
		for i := range list.Items {
			use(&list.Items[i])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// Restored returns the snapshots that the restore with a UID has created.
func (s Snapshots) Restored(ctx context.Context, restore types.UID) (found []types.NamespacedName, err error) {
	err = s.each(ctx, velerov1.RestoreUIDLabel, restore, func(vs *snapshotv1.VolumeSnapshot) {
		found = append(found, types.NamespacedName{Namespace: vs.Namespace, Name: vs.Name})
	})
	return found, err
}

// DropRestored deletes the objects of a restored snapshot. Its content has the same name, and a policy by which the
// storage system keeps its snapshot.
func (s Snapshots) DropRestored(ctx context.Context, vs types.NamespacedName) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	if err := forgetContent(ctx, api, vs.Name, vs); err != nil {
		return err
	}
	return dropSnapshot(ctx, api, vs)
}

// cancelUploads requests the cancellation of all DataUploads of a backup. The data mover removes the snapshots that
// were handed over. Agents ignore DataUploads that only have the label.
func (s Snapshots) cancelUploads(ctx context.Context, backup types.UID) error {
	var uploads v2alpha1.DataUploadList
	err := s.live.List(ctx, &uploads, client.InNamespace(s.namespace),
		client.MatchingLabels{velerov1.BackupUIDLabel: string(backup)})
	if apierrors.IsNotFound(err) { // without definition, there are none
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the DataUploads of the backup: %w", err)
	}
	for i := range uploads.Items {
		upload := &uploads.Items[i]
		if upload.Spec.Cancel || upload.Status.Phase.Terminal() {
			continue
		}
		before := upload.DeepCopy()
		upload.Spec.Cancel = true
		if err := client.IgnoreNotFound(s.objects.Patch(ctx, upload, client.MergeFrom(before))); err != nil {
			return fmt.Errorf("cancel DataUpload %s: %w", upload.Name, err)
		}
	}
	return nil
}

// DropResults deletes the ConfigMaps with the results of DataUploads for a restore that has ended.
func (s Snapshots) DropResults(ctx context.Context, namespace string, restore types.UID) error {
	err := s.objects.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace), client.MatchingLabels{
		velerov1.RestoreUIDLabel: velerov1.ValidLabelValue(string(restore)), velerov1.ResourceUsageLabel: "DataUpload",
	})
	if err != nil {
		return fmt.Errorf("delete the ConfigMaps with the results of DataUploads: %w", err)
	}
	return nil
}
