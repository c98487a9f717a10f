package csi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

const (
	// The pause between two looks at a snapshot doubles from firstPause to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
	// cleanUpTimeout bounds the removal of a snapshot whose call was cancelled.
	cleanUpTimeout = time.Minute
	// defaultTimeout is that of a backup without csiSnapshotTimeout.
	defaultTimeout = 10 * time.Minute
)

// Cluster is what the actions read from the cluster, and how they reach its snapshots.
type Cluster interface {
	Snapshots() (snapshotclient.SnapshotV1Interface, error)
	Dynamic() (dynamic.Interface, error)
	Objects() (client.Client, error)
	ConfigMaps(namespace string) (corev1client.ConfigMapInterface, error)
	PersistentVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error)
	ClaimExists(ctx context.Context, namespace, name string) (bool, error)
	Claims(ctx context.Context, namespace, label, value string) ([]corev1.PersistentVolumeClaim, error)
	Versions(ctx context.Context, group string) ([]string, error)
}

// snapshots are the VolumeSnapshots of a cluster.
type snapshots struct{ cluster Cluster }

// classes returns the classes of single snapshots.
func (s snapshots) classes(ctx context.Context) ([]class, error) {
	api, err := s.cluster.Snapshots()
	if err != nil {
		return nil, err
	}
	list, err := api.VolumeSnapshotClasses().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("the cluster has no VolumeSnapshotClasses: install the snapshot controller and its " +
			"definitions, or leave the volume out by a volume policy or snapshotVolumes=false")
	}
	if err != nil {
		return nil, fmt.Errorf("list the VolumeSnapshotClasses: %w", err)
	}
	var known []class
	for i := range list.Items {
		known = append(known, class{list.Items[i].ObjectMeta, list.Items[i].Driver})
	}
	return known, nil
}

// take creates a VolumeSnapshot of a claim for a backup, with labels to which it adds.
func (s snapshots) take(
	ctx context.Context, b *velerov1.Backup, namespace, claim, class string, labels map[string]string,
) (*snapshotv1.VolumeSnapshot, error) {
	api, err := s.cluster.Snapshots()
	if err != nil {
		return nil, err
	}
	labels[velerov1.BackupNameLabel], labels[velerov1.BackupUIDLabel] = velerov1.ValidLabelValue(b.Name), string(b.UID)
	wanted := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameFor(claim), Labels: labels},
		Spec: snapshotv1.VolumeSnapshotSpec{
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}, VolumeSnapshotClassName: &class,
		},
	}
	made, err := api.VolumeSnapshots(namespace).Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // by a request whose reply was lost: nobody else makes up this name
		made, err = api.VolumeSnapshots(namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("create a VolumeSnapshot of class %s: %w", class, err)
	}
	return made, nil
}

// nameFor returns a new name of a snapshot, in the form that the API server would generate for Velero's: it fits into a
// label.
func nameFor(claim string) string { return prefix("velero-"+claim) + rand.String(5) }

// await waits until the storage system has a handle for a snapshot, and returns its content. An error says what the
// storage system says.
func (s snapshots) await(
	ctx context.Context, vs *snapshotv1.VolumeSnapshot, limit time.Duration,
) (*snapshotv1.VolumeSnapshotContent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("VolumeSnapshot %s has no snapshot handle after %s",
		vs.Name, limit))
	defer cancel()
	said := "neither the snapshot controller nor the CSI driver has said why"
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		now, content, err := s.look(ctx, vs.Namespace, vs.Name)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil && content != nil && content.Status != nil && content.Status.SnapshotHandle != nil:
			return content, nil
		case err == nil:
			said = cmp.Or(trouble(now, content), said)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("%w: %s", err, said)
		}
	}
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look returns a snapshot and its content, nil if it has none yet.
func (s snapshots) look(
	ctx context.Context, namespace, name string,
) (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent, error) {
	api, err := s.cluster.Snapshots()
	if err != nil {
		return nil, nil, err
	}
	vs, content, err := lookIn(ctx, api, namespace, name)
	if err == nil && content != nil && inGroup(content) {
		err = leaveGroup(ctx, api, content)
	}
	return vs, content, err
}

func lookIn(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, namespace, name string,
) (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent, error) {
	vs, err := api.VolumeSnapshots(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("get VolumeSnapshot %s/%s: %w", namespace, name, err)
	}
	bound := contentOf(vs)
	if bound == "" {
		return vs, nil, nil
	}
	content, err := contentFor(ctx, api, bound, vs)
	if err != nil {
		return nil, nil, err
	}
	return vs, content, nil
}

// contentFor returns the content of a name if it is of a VolumeSnapshot. Who may create a VolumeSnapshot, or write its
// status, can name any content; the content names its only VolumeSnapshot.
func contentFor(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, name string, vs *snapshotv1.VolumeSnapshot,
) (*snapshotv1.VolumeSnapshotContent, error) {
	content, err := api.VolumeSnapshotContents().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get VolumeSnapshotContent %s of VolumeSnapshot %s/%s: %w", name, vs.Namespace, vs.Name, err)
	}
	ref := content.Spec.VolumeSnapshotRef
	if ref.Namespace != vs.Namespace || ref.Name != vs.Name || ref.UID != "" && ref.UID != vs.UID {
		return nil, fmt.Errorf("%w: VolumeSnapshot %s/%s names VolumeSnapshotContent %s, which is of VolumeSnapshot %s/%s "+
			"with the UID %q", errForeign, vs.Namespace, vs.Name, name, ref.Namespace, ref.Name, ref.UID)
	}
	return content, nil
}

// errForeign is the error of a content that belongs to another VolumeSnapshot than the one that names it.
var errForeign = errors.New("the content is of another snapshot")

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

// dropSnapshot deletes a VolumeSnapshot. It is no error that there is none.
func dropSnapshot(ctx context.Context, api snapshotclient.SnapshotV1Interface, name types.NamespacedName) error {
	err := api.VolumeSnapshots(name.Namespace).Delete(ctx, name.Name, metav1.DeleteOptions{})
	if ignoreMissing(err) != nil {
		return fmt.Errorf("delete VolumeSnapshot %s: %w", name, err)
	}
	return nil
}

// dropContent deletes a content, and the storage system deletes its snapshot, whether a VolumeSnapshot is bound to the
// content or not. It is no error that there is none.
func dropContent(ctx context.Context, api snapshotclient.SnapshotV1Interface, name string) error {
	err := forgetGroup(ctx, api, name)
	if err == nil {
		err = patchContent(ctx, api, name, map[string]any{
			"spec":     map[string]any{"deletionPolicy": snapshotv1.VolumeSnapshotContentDelete},
			"metadata": map[string]any{"annotations": map[string]string{beingDeleted: "yes"}},
		})
	}
	if err == nil {
		err = api.VolumeSnapshotContents().Delete(ctx, name, metav1.DeleteOptions{})
	}
	if ignoreMissing(err) != nil {
		return fmt.Errorf("delete VolumeSnapshotContent %s: %w", name, err)
	}
	return nil
}

// beingDeleted is the annotation of a content by which its driver deletes the snapshot.
const beingDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"

// ignoreMissing returns err unless it says that an object does not exist.
func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
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

// drop deletes a VolumeSnapshot and its content, and the storage system deletes its snapshot. It is no error that they
// do not exist.
func (s snapshots) drop(ctx context.Context, vs *snapshotv1.VolumeSnapshot) error {
	api, err := s.cluster.Snapshots()
	if err != nil {
		return err
	}
	name := cmp.Or(contentOf(vs), "snapcontent-"+string(vs.UID)) // it exists before the snapshot refers to it
	content, err := contentFor(ctx, api, name, vs)
	if err == nil && vs.Spec.Source.VolumeSnapshotContentName != nil && knowsGroup(content) {
		err = forgetGroup(ctx, api, name)
	}
	if err == nil {
		err = setPolicy(ctx, api, name, snapshotv1.VolumeSnapshotContentDelete)
	}
	if ignoreMissing(err) != nil && !errors.Is(err, errForeign) {
		return fmt.Errorf("VolumeSnapshotContent %s: %w", name, err)
	}
	return dropSnapshot(ctx, api, types.NamespacedName{Namespace: vs.Namespace, Name: vs.Name})
}

// removeLate removes a snapshot whose call may have been cancelled, and joins err with the error of that.
func (s snapshots) removeLate(ctx context.Context, vs *snapshotv1.VolumeSnapshot, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	now, _, errLook := s.look(ctx, vs.Namespace, vs.Name)
	if errLook != nil {
		now = vs
	}
	if left := s.drop(ctx, now); left != nil {
		return fmt.Errorf("%w (it was not removed: %w)", err, left)
	}
	return err
}

// isOf reports whether a backup has taken a snapshot.
func isOf(labels map[string]string, b *velerov1.Backup) bool {
	return labels[velerov1.BackupUIDLabel] == string(b.UID)
}

// isFinalizing reports whether a backup only reads items again whose operations have ended.
func isFinalizing(b *velerov1.Backup) bool {
	return strings.HasPrefix(string(b.Status.Phase), string(velerov1.BackupPhaseFinalizing))
}

var (
	snapshotsResource = framework.ResourceIdentifier{Group: snapshotv1.GroupName, Resource: "volumesnapshots"}
	contentsResource  = framework.ResourceIdentifier{Group: snapshotv1.GroupName, Resource: "volumesnapshotcontents"}
	classesResource   = framework.ResourceIdentifier{Group: snapshotv1.GroupName, Resource: "volumesnapshotclasses"}
)

// of returns the identifier of an item of a resource.
func of(resource framework.ResourceIdentifier, namespace, name string) framework.ResourceIdentifier {
	resource.Namespace, resource.Name = namespace, name
	return resource
}

// all returns the selector of all items of a resource.
func all(resource framework.ResourceIdentifier) framework.ResourceSelector {
	return framework.ResourceSelector{IncludedResources: []string{resource.Resource + "." + resource.Group}}
}
