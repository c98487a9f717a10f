package csisnapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
)

// groupAPI is the API of group snapshots, in a version that the cluster serves.
type groupAPI struct {
	groups   dynamic.NamespaceableResourceInterface
	contents dynamic.ResourceInterface
}

// newGroupAPI returns the API of group snapshots, nil if the cluster serves none. All versions have what is used here.
func newGroupAPI(config *rest.Config) (*groupAPI, error) {
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := known.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("which versions of %s the cluster serves: %w", groupsnapshotv1.GroupName, err)
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == groupsnapshotv1.GroupName })
	if i < 0 {
		return nil, nil
	}
	served := groups.Groups[i]
	anything, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	version := schema.GroupVersion{Group: served.Name, Version: served.PreferredVersion.Version}
	return &groupAPI{
		groups:   anything.Resource(version.WithResource("volumegroupsnapshots")),
		contents: anything.Resource(version.WithResource("volumegroupsnapshotcontents")),
	}, nil
}

// removeGroups deletes the VolumeGroupSnapshots that a backup has left, with their snapshots. Actions delete them when
// their snapshots have objects of their own, unless the server is killed meanwhile.
func (s Snapshots) removeGroups(ctx context.Context, backup types.UID) error {
	api, err := s.groups()
	if err != nil || api == nil {
		return err
	}
	groups, err := labelled(ctx, api.groups, backup)
	if err != nil {
		return err
	}
	var failed []error
	for i := range groups {
		failed = append(failed, api.drop(ctx, &groups[i]))
	}
	contents, err := labelled(ctx, api.contents, backup)
	for i := range contents {
		if own, err := s.madeFor(ctx, backup, "VolumeGroupSnapshotContent", &contents[i]); err != nil || !own {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, api.dropContent(ctx, contents[i].GetName()))
	}
	return errors.Join(append(failed, err)...)
}

// labelled returns the objects with the UID of a backup in a label that are not being deleted.
func labelled(
	ctx context.Context, api dynamic.ResourceInterface, backup types.UID,
) ([]unstructured.Unstructured, error) {
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: velerov1.BackupUIDLabel + "=" + string(backup)})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // without definition, or without the right to make any
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the group snapshots of the backup: %w", err)
	}
	return slices.DeleteFunc(list.Items,
		func(o unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil }), nil
}

// drop deletes a VolumeGroupSnapshot and the snapshots of the group at the storage system.
func (a *groupAPI) drop(ctx context.Context, group *unstructured.Unstructured) error {
	content := "groupsnapcontent-" + string(group.GetUID()) // it exists before the group refers to it
	err := ignoreMissing(a.patch(ctx, content, `{"spec":{"deletionPolicy":"Delete"}}`))
	if err == nil {
		err = ignoreMissing(a.groups.Namespace(group.GetNamespace()).Delete(ctx, group.GetName(), metav1.DeleteOptions{}))
	}
	if err != nil {
		return fmt.Errorf("delete VolumeGroupSnapshot %s/%s: %w", group.GetNamespace(), group.GetName(), err)
	}
	return nil
}

// dropContent deletes the content of a VolumeGroupSnapshot, whether that exists or not, and the snapshots of the group
// at the storage system.
func (a *groupAPI) dropContent(ctx context.Context, name string) error {
	err := a.patch(ctx, name, `{"spec":{"deletionPolicy":"Delete"},"metadata":{"annotations":`+
		`{"groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted":"yes"}}}`)
	if err == nil {
		err = a.contents.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if ignoreMissing(err) != nil {
		return fmt.Errorf("delete VolumeGroupSnapshotContent %s: %w", name, err)
	}
	return nil
}

func (a *groupAPI) patch(ctx context.Context, content, patch string) error {
	_, err := a.contents.Patch(ctx, content, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// removeUnbound deletes the contents of a backup whose VolumeSnapshots do not exist, with their snapshots. A group that
// is taken apart has such contents until all of them are complete.
func (s Snapshots) removeUnbound(ctx context.Context, backup types.UID) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	list, err := api.VolumeSnapshotContents().List(ctx,
		metav1.ListOptions{LabelSelector: velerov1.BackupUIDLabel + "=" + string(backup)})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // as in each
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the VolumeSnapshotContents of the backup: %w", err)
	}
	var failed []error
	for i := range list.Items {
		content := &list.Items[i]
		if own, err := s.madeFor(ctx, backup, "VolumeSnapshotContent", content); err != nil || !own {
			failed = append(failed, err)
			continue
		}
		ref := content.Spec.VolumeSnapshotRef
		vs, err := api.VolumeSnapshots(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case content.DeletionTimestamp != nil || err == nil && vs.DeletionTimestamp == nil:
		case ignoreMissing(err) != nil:
			failed = append(failed, fmt.Errorf("get VolumeSnapshot %s/%s: %w", ref.Namespace, ref.Name, err))
		default:
			failed = append(failed, dropContent(ctx, api, content, false))
		}
	}
	return errors.Join(failed...)
}

// madeFor reports whether a backup has made a content, or has taken it over. The label proves nothing.
func (s Snapshots) madeFor(ctx context.Context, backup types.UID, kind string, content metav1.Object) (bool, error) {
	wrong, err := s.keys.Verify(ctx, "Backup", backup, func(key loadproof.Key) error {
		return key.VerifyMark(content.GetAnnotations()[velerov1.TakenForAnnotation], kind, content.GetName())
	})
	return wrong == nil && err == nil, err
}

// inGroup reports whether a backup has taken the snapshot of a content in a group.
func inGroup(content *snapshotv1.VolumeSnapshotContent) bool {
	return content.Annotations[velerov1.VolumeGroupSnapshotHandleAnnotation] != ""
}

// isComplete reports whether the driver has completed the snapshot of a content.
func isComplete(content *snapshotv1.VolumeSnapshotContent) bool {
	return content.Status != nil && content.Status.ReadyToUse != nil && *content.Status.ReadyToUse
}

// leaveGroup makes the content of a snapshot forget that the snapshot was taken in a group. Otherwise the snapshot
// controller looks for the group, without which it neither uses the snapshot nor deletes it. A driver repeats what the
// group is until the snapshot is complete.
func leaveGroup(
	ctx context.Context, api snapshotclient.SnapshotV1Interface, content *snapshotv1.VolumeSnapshotContent,
) error {
	if content.Status == nil || content.Status.VolumeGroupSnapshotHandle == nil {
		return nil
	}
	_, err := api.VolumeSnapshotContents().Patch(ctx, content.Name, types.MergePatchType,
		[]byte(`{"status":{"volumeGroupSnapshotHandle":null}}`), metav1.PatchOptions{}, "status")
	if ignoreMissing(err) != nil {
		return fmt.Errorf("take VolumeSnapshotContent %s out of its group: %w", content.Name, err)
	}
	return nil
}

// ignoreMissing returns err unless it says that an object does not exist.
func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
