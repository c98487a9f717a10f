package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// groupVersions are the versions of the API of group snapshots that have what is used of it in the same fields.
func groupVersions() []string { return []string{"v1", "v1beta2", "v1beta1"} }

// groupAPI is the API of group snapshots, in a version that the cluster serves.
type groupAPI struct {
	groups            dynamic.NamespaceableResourceInterface
	contents, classes dynamic.ResourceInterface
	version           schema.GroupVersion
}

func (g *groups) api(ctx context.Context) (*groupAPI, error) {
	served, err := g.cluster.Versions(ctx, groupsnapshotv1.GroupName)
	if err != nil {
		return nil, err
	}
	if len(served) == 0 {
		return nil, errWithoutGroups
	}
	i := slices.IndexFunc(groupVersions(), func(v string) bool { return slices.Contains(served, v) })
	if i < 0 {
		return nil, fmt.Errorf("the cluster serves versions %v of %s, want one of %v; install newer definitions of group "+
			"snapshots", served, groupsnapshotv1.GroupName, groupVersions())
	}
	anything, err := g.cluster.Dynamic()
	if err != nil {
		return nil, err
	}
	version := schema.GroupVersion{Group: groupsnapshotv1.GroupName, Version: groupVersions()[i]}
	return &groupAPI{
		groups:   anything.Resource(version.WithResource("volumegroupsnapshots")),
		contents: anything.Resource(version.WithResource("volumegroupsnapshotcontents")),
		classes:  anything.Resource(version.WithResource("volumegroupsnapshotclasses")),
		version:  version,
	}, nil
}

// create creates the VolumeGroupSnapshot of a group.
func (a *groupAPI) create(ctx context.Context, of *group, class string) (*groupsnapshotv1.VolumeGroupSnapshot, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&groupsnapshotv1.VolumeGroupSnapshot{
		TypeMeta: metav1.TypeMeta{APIVersion: a.version.String(), Kind: "VolumeGroupSnapshot"},
		ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name(), Labels: of.labels(
			map[string]string{of.label: of.value, velerov1.ExcludeFromBackupLabel: "true"})},
		Spec: groupsnapshotv1.VolumeGroupSnapshotSpec{
			VolumeGroupSnapshotClassName: &class, Source: groupsnapshotv1.VolumeGroupSnapshotSource{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{of.label: of.value}},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	made, err := a.groups.Namespace(of.namespace).Create(ctx, &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // by a request whose reply was lost: nobody else makes up this name
		return a.look(ctx, of)
	}
	if err != nil {
		return nil, fmt.Errorf("create a VolumeGroupSnapshot of class %s: %w", class, err)
	}
	return decoded[groupsnapshotv1.VolumeGroupSnapshot](made)
}

// look returns the VolumeGroupSnapshot of a group.
func (a *groupAPI) look(ctx context.Context, of *group) (*groupsnapshotv1.VolumeGroupSnapshot, error) {
	now, err := a.groups.Namespace(of.namespace).Get(ctx, of.name(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get VolumeGroupSnapshot %s/%s: %w", of.namespace, of.name(), err)
	}
	return decoded[groupsnapshotv1.VolumeGroupSnapshot](now)
}

// content returns the content of a VolumeGroupSnapshot, nil if there is none yet.
func (a *groupAPI) content(
	ctx context.Context, vgs *groupsnapshotv1.VolumeGroupSnapshot,
) (*groupsnapshotv1.VolumeGroupSnapshotContent, error) {
	name := groupContentOf(vgs)
	now, err := a.contents.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get VolumeGroupSnapshotContent %s: %w", name, err)
	}
	return decoded[groupsnapshotv1.VolumeGroupSnapshotContent](now)
}

// groupContentOf returns the name of the content of a VolumeGroupSnapshot. It exists before the VolumeGroupSnapshot
// refers to it.
func groupContentOf(vgs *groupsnapshotv1.VolumeGroupSnapshot) string {
	return "groupsnapcontent-" + string(vgs.UID)
}

// drop deletes a VolumeGroupSnapshot with its snapshots, which the storage system keeps or deletes by policy. It is no
// error that it does not exist. The content, which may stay, gets the label of the backup.
func (a *groupAPI) drop(
	ctx context.Context, of *group, vgs *groupsnapshotv1.VolumeGroupSnapshot, policy snapshotv1.DeletionPolicy,
) error {
	patch, err := json.Marshal(of.owned(policy, "VolumeGroupSnapshotContent", groupContentOf(vgs)))
	if err == nil {
		_, err = a.contents.Patch(ctx, groupContentOf(vgs), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if ignoreMissing(err) == nil {
		err = a.groups.Namespace(vgs.Namespace).Delete(ctx, vgs.Name, metav1.DeleteOptions{})
	}
	if ignoreMissing(err) != nil {
		return fmt.Errorf("delete VolumeGroupSnapshot %s/%s: %w", vgs.Namespace, vgs.Name, err)
	}
	return nil
}

func decoded[T any](object *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return typed, nil
}
