package csisnapshots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// sourceAnnotation of the content of a snapshot that was handed over is the name of the content that had it before.
const sourceAnnotation = "cleat.dev/source-content"

// managedByLabel of a content names the node whose snapshotter manages the content, where each node has a snapshotter.
const managedByLabel = "snapshot.storage.kubernetes.io/managed-by"

var (
	// ErrNotTaken is returned for a snapshot that does not exist, or not any more.
	ErrNotTaken = errors.New("there is no such snapshot")
	// ErrNameTaken is returned for a snapshot that cannot be handed over, because another owner has an object of the name
	// that it would get.
	ErrNameTaken = errors.New("a name is taken")
)

// Handed describes a snapshot that was handed over.
type Handed struct {
	RestoreSize *resource.Quantity // of a volume that is made of it; nil if that is not known
	Mode        *corev1.PersistentVolumeMode
}

// Marks are the labels of the VolumeSnapshot that a backup has taken for one of its operations. HandOver and Discard
// touch no other.
type Marks struct {
	Backup    types.UID
	Operation string
}

func (m Marks) on(vs *snapshotv1.VolumeSnapshot) bool {
	return m.Backup != "" && m.Operation != "" &&
		vs.Labels[velerov1.BackupUIDLabel] == string(m.Backup) && vs.Labels[velerov1.AsyncOperationIDLabel] == m.Operation
}

// HandOver moves the snapshot of a VolumeSnapshot to another namespace, where volumes can be made of it: the storage
// system keeps the snapshot, and the objects in the former namespace are deleted. HandOver does not block: wait
// describes what is missing, and the caller repeats the call until wait is empty. A call that is interrupted, at any
// point, is continued by the next one, or undone by Discard.
//
// The new content exists, with all that later steps need, before the former one is deleted. So at any time, some object
// in the cluster leads to the snapshot.
func (s Snapshots) HandOver(
	ctx context.Context, marks Marks, from, to types.NamespacedName,
) (handed Handed, wait string, err error) {
	api, err := s.api()
	if err != nil {
		return handed, "", err
	}
	content, err := s.handedContent(ctx, api, to)
	if err != nil {
		return handed, "", err
	}
	if content == nil {
		if content, wait, err = s.adopt(ctx, api, marks, from, to); err != nil || wait != "" {
			return handed, wait, err
		}
	}
	if content.DeletionTimestamp != nil {
		return handed, fmt.Sprintf("VolumeSnapshotContent %s, which a load of the same name has left, is being deleted",
			content.Name), nil
	}
	if err := createHanded(ctx, api, content, to); err != nil {
		return handed, "", err
	}
	if err := letGo(ctx, api, marks, content, from); err != nil {
		return handed, "", err
	}
	if inGroup(content) {
		if !isComplete(content) {
			return handed, fmt.Sprintf("VolumeSnapshotContent %s is not ready to use%s", content.Name,
				because(trouble(&snapshotv1.VolumeSnapshot{}, content))), nil
		}
		if err := leaveGroup(ctx, api, content); err != nil {
			return handed, "", err
		}
	}
	handed.Mode = content.Spec.SourceVolumeMode
	if text := content.Annotations[velerov1.VolumeSnapshotRestoreSizeAnnotation]; text != "" {
		size, err := resource.ParseQuantity(text)
		if err != nil {
			return handed, "", fmt.Errorf("VolumeSnapshotContent %s: annotation %s is %q, want a quantity", content.Name,
				velerov1.VolumeSnapshotRestoreSizeAnnotation, text)
		}
		handed.RestoreSize = &size
	}
	return handed, "", nil
}

// Discard deletes a snapshot with all its objects, at any stage of HandOver. It is no error that there is none. Objects
// of other owners stay.
func (s Snapshots) Discard(ctx context.Context, marks Marks, from, to types.NamespacedName) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	content, err := s.handedContent(ctx, api, to)
	switch {
	case err != nil && !errors.Is(err, ErrNameTaken):
		return err
	case content == nil:
		if err := s.dropMarked(ctx, api, marks, from); err != nil {
			return err
		}
	default: // it may not be bound, so that its snapshot does not lead to it
		if err := letGo(ctx, api, marks, content, from); err != nil {
			return err
		}
		if err := dropContent(ctx, api, content, false); err != nil {
			return err
		}
	}
	handed, err := api.VolumeSnapshots(to.Namespace).Get(ctx, to.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get VolumeSnapshot %s: %w", to, err)
	case !isHanded(handed, to):
		return nil
	}
	return dropSnapshot(ctx, api, to)
}

// isHanded reports whether a VolumeSnapshot belongs to a snapshot that was handed over.
func isHanded(vs *snapshotv1.VolumeSnapshot, to types.NamespacedName) bool {
	source := vs.Spec.Source.VolumeSnapshotContentName
	return source != nil && *source == handedName(to)
}

// handedName returns the name of the content of a snapshot that was handed over.
func handedName(to types.NamespacedName) string { return to.Namespace + "-" + to.Name }

// handedContent returns the content of a snapshot that was handed over, nil if there is none.
func (s Snapshots) handedContent(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, to types.NamespacedName,
) (*snapshotv1.VolumeSnapshotContent, error) {
	content, err := api.VolumeSnapshotContents().Get(ctx, handedName(to), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get VolumeSnapshotContent %s: %w", handedName(to), err)
	case content.Annotations[sourceAnnotation] == "" || content.Spec.VolumeSnapshotRef.Namespace != to.Namespace ||
		content.Spec.VolumeSnapshotRef.Name != to.Name:
		return nil, fmt.Errorf("%w: VolumeSnapshotContent %s exists and is not of VolumeSnapshot %s; rename or delete it",
			ErrNameTaken, content.Name, to)
	}
	return content, nil
}

// adopt creates the content of a snapshot that is handed over, when it is ready.
func (s Snapshots) adopt(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, marks Marks, from, to types.NamespacedName,
) (_ *snapshotv1.VolumeSnapshotContent, wait string, err error) {
	vs, source, err := s.look(ctx, from.Namespace, from.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", fmt.Errorf("%w: %w", ErrNotTaken, err)
	case err != nil:
		return nil, "", err
	case !marks.on(vs):
		return nil, "", fmt.Errorf("%w: VolumeSnapshot %s was not taken for this load: its labels %s and %s are %q and %q, "+
			"want %q and %q", ErrNotTaken, from,
			velerov1.BackupUIDLabel, velerov1.AsyncOperationIDLabel, vs.Labels[velerov1.BackupUIDLabel],
			vs.Labels[velerov1.AsyncOperationIDLabel], marks.Backup, marks.Operation)
	case vs.DeletionTimestamp != nil:
		return nil, "", fmt.Errorf("%w: VolumeSnapshot %s is being deleted", ErrNotTaken, from)
	case !isReady(vs) || source == nil || source.Status == nil || source.Status.SnapshotHandle == nil:
		return nil, fmt.Sprintf("VolumeSnapshot %s is not ready to use%s", from, because(trouble(vs, source))), nil
	}
	made, err := api.VolumeSnapshotContents().Create(ctx, adopted(vs, source, to), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // by a request whose reply was lost
		return nil, fmt.Sprintf("VolumeSnapshotContent %s was just created", handedName(to)), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("create VolumeSnapshotContent %s: %w", handedName(to), err)
	}
	return made, "", nil
}

// adopted returns a content for the snapshot of another content. Its deletion deletes the snapshot.
func adopted(
	vs *snapshotv1.VolumeSnapshot, source *snapshotv1.VolumeSnapshotContent, to types.NamespacedName,
) *snapshotv1.VolumeSnapshotContent {
	annotations := maps.Clone(source.Annotations) // they name the secrets
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "snapshot.storage.kubernetes.io/volumesnapshot-being-")
	})
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[sourceAnnotation] = source.Name
	if vs.Status.RestoreSize != nil && !vs.Status.RestoreSize.IsZero() {
		annotations[velerov1.VolumeSnapshotRestoreSizeAnnotation] = vs.Status.RestoreSize.String()
	}
	labels := map[string]string{}
	if node := source.Labels[managedByLabel]; node != "" {
		labels[managedByLabel] = node
	}
	return &snapshotv1.VolumeSnapshotContent{
		// With the finalizer from the start, it cannot go without the snapshot.
		ObjectMeta: metav1.ObjectMeta{Name: handedName(to), Labels: labels, Annotations: annotations,
			Finalizers: []string{protection}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: source.Spec.Driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			SourceVolumeMode:        source.Spec.SourceVolumeMode,
			VolumeSnapshotClassName: source.Spec.VolumeSnapshotClassName,
			Source:                  snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: source.Status.SnapshotHandle},
			VolumeSnapshotRef: corev1.ObjectReference{APIVersion: snapshotv1.SchemeGroupVersion.String(),
				Kind: "VolumeSnapshot", Namespace: to.Namespace, Name: to.Name},
		},
	}
}

// createHanded creates the VolumeSnapshot of a content that was handed over, unless it exists.
func createHanded(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, content *snapshotv1.VolumeSnapshotContent,
	to types.NamespacedName,
) error {
	known, err := api.VolumeSnapshots(to.Namespace).Get(ctx, to.Name, metav1.GetOptions{})
	if err == nil && !isHanded(known, to) {
		return fmt.Errorf("%w: VolumeSnapshot %s exists and is not of VolumeSnapshotContent %s; rename or delete it",
			ErrNameTaken, to, content.Name)
	}
	if apierrors.IsNotFound(err) {
		_, err = api.VolumeSnapshots(to.Namespace).Create(ctx, &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: to.Name,
				Labels: map[string]string{velerov1.ExcludeFromBackupLabel: "true"}},
			Spec: snapshotv1.VolumeSnapshotSpec{
				Source:                  snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &content.Name},
				VolumeSnapshotClassName: content.Spec.VolumeSnapshotClassName,
			},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // by a request whose reply was lost
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("create VolumeSnapshot %s: %w", to, err)
	}
	return nil
}

// letGo deletes the objects from which a content took over the snapshot, which stays at the storage system.
func letGo(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, marks Marks, content *snapshotv1.VolumeSnapshotContent,
	from types.NamespacedName,
) error {
	if err := forgetContent(ctx, api, content.Annotations[sourceAnnotation], from); err != nil {
		return err
	}
	if vs, err := marked(ctx, api, marks, from); err != nil || vs == nil {
		return err
	}
	return dropSnapshot(ctx, api, from)
}

// dropMarked deletes a VolumeSnapshot that has marks, with the snapshot at the storage system. It is no error that
// there is none.
func (s Snapshots) dropMarked(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, marks Marks, name types.NamespacedName,
) error {
	vs, err := marked(ctx, api, marks, name)
	if err != nil || vs == nil {
		return err
	}
	return s.drop(ctx, vs, false)
}

// marked returns the VolumeSnapshot of a name if it has marks, nil otherwise.
func marked(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, marks Marks, name types.NamespacedName,
) (*snapshotv1.VolumeSnapshot, error) {
	vs, err := api.VolumeSnapshots(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !marks.on(vs):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get VolumeSnapshot %s: %w", name, err)
	}
	return vs, nil
}

// protection is the finalizer by which a content stays until its driver has deleted the snapshot.
const protection = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"

// because returns the end of a sentence that gives a reason, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
