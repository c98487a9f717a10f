package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
)

// labels returns the labels of an object of a group, which are those of the backup and more.
func (of *group) labels(more map[string]string) map[string]string {
	all := map[string]string{velerov1.BackupNameLabel: velerov1.ValidLabelValue(of.backup.Name),
		velerov1.BackupUIDLabel: string(of.backup.UID)}
	maps.Copy(all, more)
	return all
}

// owned returns a patch of a content of a group, by which the server finds it if it is killed meanwhile.
func (of *group) owned(policy snapshotv1.DeletionPolicy, kind, name string) map[string]any {
	return map[string]any{"spec": map[string]any{"deletionPolicy": policy},
		"metadata": map[string]any{"labels": map[string]any{velerov1.BackupUIDLabel: of.backup.UID},
			"annotations": markOf(of.backup, kind, name)}}
}

// markOf returns the annotation of a content that proves for which backup it was made.
func markOf(backup *velerov1.Backup, kind, name string) map[string]string {
	return map[string]string{velerov1.TakenForAnnotation: loadproof.KeyOf(backup).Mark(kind, name)}
}

// contentKind is the kind of the contents of single snapshots.
const contentKind = "VolumeSnapshotContent"

// groupMember is the snapshot of one volume of a VolumeGroupSnapshot.
type groupMember struct {
	claim   string // empty if the claim does not exist any more
	content *snapshotv1.VolumeSnapshotContent
}

// take takes the snapshots of the claims of a group. After an error, there are none.
//
// The steps are in an order in which the snapshots are never lost or left: each has a content of its own that the
// storage system's driver has found, before the group is deleted. All objects have labels of the backup, by which the
// server removes them if it is killed in between. The VolumeSnapshots come last: while the group exists, the snapshot
// controller would make them its members, and delete them with it.
func (g *groups) take(ctx context.Context, of *group) (err error) {
	if err := g.find(ctx, of); err != nil {
		return err
	}
	api, err := g.api(ctx)
	if err != nil {
		return err
	}
	single, err := g.cluster.Snapshots()
	if err != nil {
		return err
	}
	class, err := g.class(ctx, of, api)
	if err != nil {
		return err
	}
	limit := cmp.Or(of.backup.Spec.CSISnapshotTimeout.Duration, defaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("VolumeGroupSnapshot %s has no snapshot handles after %s", of.name(), limit))
	defer cancel()
	vgs, err := api.create(ctx, of, class)
	if err != nil {
		return err
	}
	var members []groupMember
	defer func() {
		if err != nil {
			err = of.discardLate(ctx, api, single, vgs, members, err)
		}
	}()
	if members, err = of.awaitMembers(ctx, api, single, vgs); err != nil {
		return err
	}
	for _, m := range members {
		if err := of.adopt(ctx, single, m); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := awaitContent(ctx, single, of.content(m.claim)); err != nil {
			return err
		}
	}
	if err := of.dissolve(ctx, api, single, vgs, members); err != nil {
		return err
	}
	for _, m := range members {
		if err := of.createSnapshot(ctx, single, m); err != nil {
			return err
		}
	}
	return nil
}

// awaitMembers waits until the storage system has a handle for each snapshot of a group, and returns the snapshots.
func (of *group) awaitMembers(
	ctx context.Context, api *groupAPI, single snapshotclient.SnapshotV1Interface,
	vgs *groupsnapshotv1.VolumeGroupSnapshot,
) ([]groupMember, error) {
	said := "neither the snapshot controller nor the CSI driver has said why"
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		now, err := api.look(ctx, of)
		if err == nil && now.UID != vgs.UID {
			err = fmt.Errorf("VolumeGroupSnapshot %s/%s was deleted and created again", now.Namespace, now.Name)
		}
		var content *groupsnapshotv1.VolumeGroupSnapshotContent
		if err == nil {
			content, err = api.content(ctx, now)
		}
		var members []groupMember
		if err == nil && content != nil {
			members, err = of.members(ctx, single, now, len(content.Spec.Source.VolumeHandles))
		}
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil && len(members) > 0:
			return members, of.complete(members)
		case err == nil:
			said = cmp.Or(groupTrouble(now, content), said)
			if strings.Contains(said, "code = Unimplemented") {
				return nil, fmt.Errorf("CSI driver %s takes no group snapshots (%s); take single snapshots by removing the label",
					of.driver, said)
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("%w: %s", err, said)
		}
	}
}

// members returns the snapshots of a group if there are as many as wanted, and the storage system has handles for all.
func (of *group) members(
	ctx context.Context, single snapshotclient.SnapshotV1Interface, vgs *groupsnapshotv1.VolumeGroupSnapshot, wanted int,
) ([]groupMember, error) {
	list, err := single.VolumeSnapshots(of.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the VolumeSnapshots of VolumeGroupSnapshot %s: %w", vgs.Name, err)
	}
	var found []groupMember
	for i := range list.Items {
		vs := &list.Items[i]
		isOwner := func(o metav1.OwnerReference) bool { return o.UID == vgs.UID }
		if !slices.ContainsFunc(vs.OwnerReferences, isOwner) {
			continue
		}
		// Without the name of the group in its status, the snapshot controller would never let go of the snapshot.
		if vs.Status == nil || vs.Status.VolumeGroupSnapshotName == nil || contentOf(vs) == "" {
			return nil, nil
		}
		_, content, err := lookIn(ctx, single, vs.Namespace, vs.Name)
		if err != nil {
			return nil, err
		}
		if content == nil || !knowsGroup(content) || content.Status.SnapshotHandle == nil {
			return nil, nil
		}
		m := groupMember{content: content}
		if vs.Spec.Source.PersistentVolumeClaimName != nil {
			m.claim = *vs.Spec.Source.PersistentVolumeClaimName
		}
		found = append(found, m)
	}
	if len(found) < wanted {
		return nil, nil
	}
	return found, nil
}

// complete returns an error unless there is a snapshot of each claim.
func (of *group) complete(members []groupMember) error {
	for i := range of.claims {
		name := of.claims[i].Name
		if !slices.ContainsFunc(members, func(m groupMember) bool { return m.claim == name }) {
			return fmt.Errorf("VolumeGroupSnapshot %s has no snapshot of claim %s", of.name(), name)
		}
	}
	return nil
}

// groupTrouble returns the error that a controller or the driver reports for a group, "" if there is none. They try
// again.
func groupTrouble(
	vgs *groupsnapshotv1.VolumeGroupSnapshot, content *groupsnapshotv1.VolumeGroupSnapshotContent,
) string {
	if content != nil && content.Status != nil && content.Status.Error != nil && content.Status.Error.Message != nil {
		return *content.Status.Error.Message
	}
	if vgs.Status != nil && vgs.Status.Error != nil && vgs.Status.Error.Message != nil {
		return *vgs.Status.Error.Message
	}
	return ""
}

// adopt creates a content for a snapshot of a group that stays when the group is deleted.
func (of *group) adopt(ctx context.Context, api snapshotclient.SnapshotV1Interface, m groupMember) error {
	annotations := maps.Clone(m.content.Annotations) // they name the secrets
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "snapshot.storage.kubernetes.io/volumesnapshot-being-") ||
			strings.HasPrefix(key, "groupsnapshot.storage.kubernetes.io/")
	})
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[velerov1.VolumeGroupSnapshotHandleAnnotation] = *m.content.Status.VolumeGroupSnapshotHandle
	name := of.content(m.claim)
	maps.Copy(annotations, markOf(of.backup, contentKind, name))
	_, err := api.VolumeSnapshotContents().Create(ctx, &snapshotv1.VolumeSnapshotContent{
		// With the finalizer from the start, it cannot go without the snapshot.
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of.labels(nil), Annotations: annotations,
			Finalizers: []string{protection}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: m.content.Spec.Driver, DeletionPolicy: m.content.Spec.DeletionPolicy,
			SourceVolumeMode: m.content.Spec.SourceVolumeMode,
			Source:           snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: m.content.Status.SnapshotHandle},
			VolumeSnapshotRef: corev1.ObjectReference{APIVersion: snapshotv1.SchemeGroupVersion.String(), Kind: "VolumeSnapshot",
				Namespace: of.namespace, Name: of.snapshot(m.claim)},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create VolumeSnapshotContent %s: %w", name, err)
	}
	return nil
}

// awaitContent waits until the driver has found the snapshot of a content. Before that, the snapshot would stay if the
// content were deleted.
func awaitContent(ctx context.Context, api snapshotclient.SnapshotV1Interface, name string) error {
	said := "neither the snapshot controller nor the CSI driver has said why"
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		content, err := api.VolumeSnapshotContents().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("get VolumeSnapshotContent %s: %w", name, err)
		case err == nil && content.Status != nil && content.Status.SnapshotHandle != nil:
			return nil
		case err == nil:
			said = cmp.Or(trouble(&snapshotv1.VolumeSnapshot{}, content), said)
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
	}
}

// dissolve deletes the objects of a group. The storage system keeps its snapshots.
func (of *group) dissolve(
	ctx context.Context, api *groupAPI, single snapshotclient.SnapshotV1Interface,
	vgs *groupsnapshotv1.VolumeGroupSnapshot, members []groupMember,
) error {
	for _, m := range members {
		err := patchContent(ctx, single, m.content.Name,
			of.owned(snapshotv1.VolumeSnapshotContentRetain, contentKind, m.content.Name))
		if err != nil {
			return fmt.Errorf("VolumeSnapshotContent %s: %w", m.content.Name, err)
		}
	}
	if err := api.drop(ctx, of, vgs, snapshotv1.VolumeSnapshotContentRetain); err != nil {
		return err
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		_, err := api.look(ctx, of)
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: the snapshot controller has not deleted the VolumeGroupSnapshot", err)
		}
	}
	if err := api.contents.Delete(ctx, groupContentOf(vgs), metav1.DeleteOptions{}); ignoreMissing(err) != nil {
		return fmt.Errorf("delete VolumeGroupSnapshotContent %s: %w", groupContentOf(vgs), err)
	}
	for _, m := range members {
		err := single.VolumeSnapshotContents().Delete(ctx, m.content.Name, metav1.DeleteOptions{})
		if ignoreMissing(err) != nil {
			return fmt.Errorf("delete VolumeSnapshotContent %s: %w", m.content.Name, err)
		}
	}
	return nil
}

// createSnapshot creates the VolumeSnapshot of a content that adopt has created.
func (of *group) createSnapshot(ctx context.Context, api snapshotclient.SnapshotV1Interface, m groupMember) error {
	labels := map[string]string{}
	for i := range of.claims {
		if of.claims[i].Name == m.claim {
			maps.Copy(labels, of.claims[i].Labels)
		}
	}
	labels = of.labels(labels)
	labels[velerov1.AsyncOperationIDLabel] = unused
	content := of.content(m.claim)
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.snapshot(m.claim), Labels: labels,
			Annotations: map[string]string{velerov1.SnapshotOfClaimAnnotation: m.claim}},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &content}},
	}
	_, err := api.VolumeSnapshots(of.namespace).Create(ctx, vs, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create VolumeSnapshot %s: %w", vs.Name, err)
	}
	return nil
}

// discardLate removes what was made for a group in a call that may have been cancelled, with the snapshots at the
// storage system, and joins err with the errors of that.
func (of *group) discardLate(
	ctx context.Context, api *groupAPI, single snapshotclient.SnapshotV1Interface,
	vgs *groupsnapshotv1.VolumeGroupSnapshot, members []groupMember, err error,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	var left []error
	for _, m := range members {
		left = append(left,
			dropSnapshot(ctx, single, types.NamespacedName{Namespace: of.namespace, Name: of.snapshot(m.claim)}),
			dropContent(ctx, single, of.content(m.claim)))
	}
	if now, errLook := api.look(ctx, of); errLook == nil {
		vgs = now
	}
	left = append(left, api.drop(ctx, of, vgs, snapshotv1.VolumeSnapshotContentDelete))
	if joined := errors.Join(left...); joined != nil {
		return fmt.Errorf("%w (it was not removed: %w)", err, joined)
	}
	return err
}

// leaveGroup makes the content of a snapshot forget that the snapshot was taken in a group, once the driver has
// completed it. Otherwise the snapshot controller looks for the group, without which it neither uses the snapshot nor
// deletes it.
func leaveGroup(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, content *snapshotv1.VolumeSnapshotContent,
) error {
	if !knowsGroup(content) || content.Status.ReadyToUse == nil || !*content.Status.ReadyToUse {
		return nil
	}
	return forgetGroup(ctx, api, content.Name)
}

// knowsGroup reports whether the driver has told the content of a snapshot that the snapshot was taken in a group.
func knowsGroup(content *snapshotv1.VolumeSnapshotContent) bool {
	return content.Status != nil && content.Status.VolumeGroupSnapshotHandle != nil
}

func forgetGroup(ctx context.Context, api snapshotclient.SnapshotV1Interface, content string) error {
	_, err := api.VolumeSnapshotContents().Patch(ctx, content, types.MergePatchType,
		[]byte(`{"status":{"volumeGroupSnapshotHandle":null}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("take VolumeSnapshotContent %s out of its group: %w", content, err)
	}
	return nil
}

// inGroup reports whether a backup has taken the snapshot of a content in a group.
func inGroup(content *snapshotv1.VolumeSnapshotContent) bool {
	return content.Annotations[velerov1.VolumeGroupSnapshotHandleAnnotation] != ""
}
