package csi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
)

// protection is the finalizer by which a content stays until its driver has deleted the snapshot.
const protection = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"

// deletionTimeout is how long a driver may take to delete a snapshot. Velero does not wait for that, and forgets the
// snapshot.
const deletionTimeout = 5 * time.Minute

// NewDeletedContents returns velero.io/csi-volumesnapshotcontent-delete. It deletes a snapshot of a backup at the
// storage system, by a content that stands for it, and waits until that is done. A deletion that fails can be repeated.
func NewDeletedContents(cluster Cluster) (diav1.DeleteItemAction, error) {
	return &deletedContents{cluster: cluster}, nil
}

type deletedContents struct{ cluster Cluster }

func (*deletedContents) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return all(contentsResource), nil
}

func (a *deletedContents) Execute(ctx context.Context, input *diav1.ExecuteInput) error {
	var stored snapshotv1.VolumeSnapshotContent
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(input.Item.Object, &stored); err != nil {
		return fmt.Errorf("decode the content: %w", err)
	}
	if stored.Labels[velerov1.BackupNameLabel] != velerov1.ValidLabelValue(input.Backup.Name) {
		framework.Log(ctx).Info("the snapshot was not taken by the backup, so it stays", "volumeSnapshotContent", stored.Name)
		return nil
	}
	if stored.Status == nil || stored.Status.SnapshotHandle == nil {
		return nil // there is none at the storage system
	}
	handle := *stored.Status.SnapshotHandle
	api, err := a.cluster.Snapshots()
	if err == nil {
		err = a.delete(ctx, api, &stored)
	}
	if err != nil {
		return fmt.Errorf("snapshot %s of CSI driver %s was not deleted: %w", handle, stored.Spec.Driver, err)
	}
	framework.Log(ctx).Info("deleted a snapshot", "handle", handle, "driver", stored.Spec.Driver)
	return nil
}

func (a *deletedContents) delete(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, stored *snapshotv1.VolumeSnapshotContent,
) error {
	err := standsFor(ctx, api, stored)
	if err == nil {
		err = setPolicy(ctx, api, stored.Name, snapshotv1.VolumeSnapshotContentDelete)
	}
	if err == nil {
		return awaitDeletion(ctx, api, stored.Name, func(*snapshotv1.VolumeSnapshotContent) bool { return true })
	}
	if !apierrors.IsNotFound(err) { // it was only kept until the backup was stored
		return err
	}
	name := "velero-delete-" + digest(stored)
	_, err = api.VolumeSnapshotContents().Create(ctx, deletable(name, stored), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return awaitDeletion(ctx, api, name, hasHandle)
}

// standsFor returns a NotFound error unless the content of that name in the cluster is one of the same snapshot.
func standsFor(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, stored *snapshotv1.VolumeSnapshotContent,
) error {
	now, err := api.VolumeSnapshotContents().Get(ctx, stored.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if now.Spec.Driver != stored.Spec.Driver || now.Status == nil || now.Status.SnapshotHandle == nil ||
		*now.Status.SnapshotHandle != *stored.Status.SnapshotHandle {
		return apierrors.NewNotFound(snapshotv1.SchemeGroupVersion.WithResource("volumesnapshotcontents").GroupResource(),
			stored.Name)
	}
	return nil
}

// hasHandle reports whether the driver knows the snapshot of a content, or has said that it does not exist. If a
// content is deleted before, the snapshotter drops only the content, and the snapshot stays.
func hasHandle(content *snapshotv1.VolumeSnapshotContent) bool {
	return content.Status != nil && content.Status.SnapshotHandle != nil ||
		strings.Contains(trouble(&snapshotv1.VolumeSnapshot{}, content), "can not find snapshot")
}

// awaitDeletion deletes a content as soon as may allows it, and waits until the content does not exist any more.
func awaitDeletion(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, name string,
	may func(*snapshotv1.VolumeSnapshotContent) bool,
) error {
	contents := api.VolumeSnapshotContents()
	ctx, cancel := context.WithTimeoutCause(ctx, deletionTimeout,
		fmt.Errorf("VolumeSnapshotContent %s still exists after %s; is the driver installed in this cluster?", name,
			deletionTimeout))
	defer cancel()
	said := "the driver has not said why"
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		now, err := contents.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			said = cmp.Or(trouble(&snapshotv1.VolumeSnapshot{}, now), said)
			if now.DeletionTimestamp == nil && may(now) {
				if knowsGroup(now) {
					err = forgetGroup(ctx, api, name)
				}
				if err == nil {
					err = contents.Delete(ctx, name, metav1.DeleteOptions{})
				}
			}
		}
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return errors.Join(err, errors.New(said))
		}
	}
}

// deletable returns a content whose deletion deletes the snapshot. It belongs to a VolumeSnapshot that does not exist,
// and has no class, so that it depends on nothing in this cluster but the driver.
func deletable(name string, stored *snapshotv1.VolumeSnapshotContent) *snapshotv1.VolumeSnapshotContent {
	annotations := maps.Clone(stored.Annotations) // they name the secrets
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "snapshot.storage.kubernetes.io/volumesnapshot-being-")
	})
	return &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: stored.Labels, Annotations: annotations,
			Finalizers: []string{protection}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: stored.Spec.Driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			SourceVolumeMode: stored.Spec.SourceVolumeMode,
			Source:           snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: stored.Status.SnapshotHandle},
			VolumeSnapshotRef: corev1.ObjectReference{APIVersion: snapshotv1.SchemeGroupVersion.String(), Kind: "VolumeSnapshot",
				Namespace: "ns-" + string(stored.UID), Name: "name-" + string(stored.UID)},
		},
	}
}

// digest identifies a snapshot, so that a repeated deletion finds what the one before has created.
func digest(stored *snapshotv1.VolumeSnapshotContent) string {
	sum := sha256.Sum256([]byte(stored.Spec.Driver + "\n" + *stored.Status.SnapshotHandle))
	return hex.EncodeToString(sum[:16])
}
