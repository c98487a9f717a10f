package csi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/perrun"
)

// groups takes the snapshots of claims that belong together by one VolumeGroupSnapshot, so that they are of the same
// moment.
//
// Kubernetes deletes the members of a group only together. So a group is taken apart as soon as the storage system has
// handles for its members (groupmembers.go). After that, each claim has a VolumeSnapshot like that of a single claim.
type groups struct {
	cluster  Cluster
	outcomes perrun.Memo[error] // by attempt of a backup and group
}

// group is the claims of a namespace that have the same value of the label by which a backup groups claims.
type group struct {
	backup                  *velerov1.Backup
	namespace, label, value string
	claims                  []corev1.PersistentVolumeClaim
	driver                  string
}

// groupOf returns the group of a claim, nil if it is in none.
func groupOf(b *velerov1.Backup, claim *unstructured.Unstructured) *group {
	label := b.Spec.VolumeGroupSnapshotLabelKey
	value := claim.GetLabels()[label]
	if label == "" || value == "" {
		return nil
	}
	return &group{backup: b, namespace: claim.GetNamespace(), label: label, value: value}
}

// digest identifies something that one attempt of a backup makes for its group.
func (of *group) digest(what string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%s/%s=%s/%s", of.backup.UID, velerov1.AttemptOf(of.backup), of.namespace,
		of.label, of.value, what))
	return hex.EncodeToString(sum[:16])
}

// name returns the name of the VolumeGroupSnapshot.
func (of *group) name() string { return "velero-group-" + of.digest("") }

// content returns the name of the content of a claim's snapshot.
func (of *group) content(claim string) string { return "velero-member-" + of.digest(claim) }

// snapshot returns the name of a claim's snapshot.
func (of *group) snapshot(claim string) string { return prefix("velero-"+claim) + of.digest(claim)[:5] }

// unused is the operation of a snapshot of a group until the backup uses it. A backup does not use the snapshots of
// claims that it does not contain, or whose data it backs up in another way.
const unused = "unused"

// member returns the snapshot of a claim of a group. The call for the first claim takes the snapshots of all claims.
func (g *groups) member(
	ctx context.Context, of *group, claim *unstructured.Unstructured,
) (*snapshotv1.VolumeSnapshot, error) {
	vs, err := g.use(ctx, of, claim)
	if !apierrors.IsNotFound(err) {
		return vs, err
	}
	failed, err := g.outcomes.Get(ctx, of.digest(""), func(ctx context.Context) (error, error) {
		if err := g.take(ctx, of); err != nil {
			return of.failed(err), ctx.Err()
		}
		framework.Log(ctx).Info("took a group snapshot", "namespace", of.namespace, "claims", of.names(),
			"volumeGroupSnapshot", of.name())
		return nil, nil
	})
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	return g.use(ctx, of, claim)
}

// use marks the snapshot of a claim as one that the backup uses, and returns it.
func (g *groups) use(
	ctx context.Context, of *group, claim *unstructured.Unstructured,
) (*snapshotv1.VolumeSnapshot, error) {
	api, err := g.cluster.Snapshots()
	if err != nil {
		return nil, err
	}
	var operation any // none
	if moves(of.backup) {
		operation = uploadOperation(of.backup, claim.GetUID())
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{
		velerov1.AsyncOperationIDLabel: operation}}})
	if err != nil {
		return nil, err
	}
	name := of.snapshot(claim.GetName())
	vs, err := api.VolumeSnapshots(of.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("use VolumeSnapshot %s/%s: %w", of.namespace, name, err)
	}
	return vs, nil
}

// failed returns an error of a group, with the claims in it.
func (of *group) failed(err error) error {
	return fmt.Errorf("no group snapshot was taken of volume claims %s in namespace %s, which have the label %s=%s: %w",
		of.names(), of.namespace, of.label, of.value, err)
}

// names returns the names of the claims as one text.
func (of *group) names() string {
	var names []string
	for i := range of.claims {
		names = append(names, of.claims[i].Name)
	}
	return strings.Join(names, ", ")
}

// find finds the claims of a group and their driver. All of them must have volumes of one driver.
func (g *groups) find(ctx context.Context, of *group) (err error) {
	if of.claims, err = g.cluster.Claims(ctx, of.namespace, of.label, of.value); err != nil {
		return err
	}
	drivers, unfit := map[string][]string{}, []string(nil)
	for i := range of.claims {
		claim := &of.claims[i]
		if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
			unfit = append(unfit, claim.Name+" is not bound")
			continue
		}
		pv, err := g.cluster.PersistentVolume(ctx, claim.Spec.VolumeName)
		if err != nil {
			return err
		}
		if !isBoundTo(pv, claim) {
			unfit = append(unfit, claim.Name+" names volume "+pv.Name+", which is bound to another claim")
			continue
		}
		if pv.Spec.CSI == nil {
			unfit = append(unfit, claim.Name+" has a volume without CSI driver")
			continue
		}
		of.driver = pv.Spec.CSI.Driver
		drivers[of.driver] = append(drivers[of.driver], claim.Name)
	}
	if len(drivers) > 1 {
		for driver, claims := range drivers {
			unfit = append(unfit, "CSI driver "+driver+" has the volumes of "+strings.Join(claims, " and "))
		}
	}
	if len(unfit) > 0 {
		slices.Sort(unfit)
		return fmt.Errorf("a group is of bound claims with volumes of one CSI driver, but %s; remove the label from claims "+
			"that do not belong to the group, or give them another value of it", strings.Join(unfit, ", "))
	}
	return nil
}

// class returns the VolumeGroupSnapshotClass of a group.
func (g *groups) class(ctx context.Context, of *group, api *groupAPI) (string, error) {
	annotations := map[string]string{}
	for i := range of.claims {
		switch named := of.claims[i].Annotations[grouped.ofClaim]; {
		case named == "" || named == annotations[grouped.ofClaim]:
		case annotations[grouped.ofClaim] == "":
			annotations[grouped.ofClaim] = named
		default:
			return "", fmt.Errorf("their annotations %s name different classes: %s and %s; want one for the group",
				grouped.ofClaim, annotations[grouped.ofClaim], named)
		}
	}
	list, err := api.classes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list the VolumeGroupSnapshotClasses: %w", err)
	}
	var known []class
	for i := range list.Items {
		driver, _, err := unstructured.NestedString(list.Items[i].Object, "driver")
		if err != nil {
			return "", fmt.Errorf("VolumeGroupSnapshotClass %s: %w", list.Items[i].GetName(), err)
		}
		known = append(known, class{metav1.ObjectMeta{Name: list.Items[i].GetName(), Labels: list.Items[i].GetLabels(),
			Annotations: list.Items[i].GetAnnotations()}, driver})
	}
	return grouped.choose(of.driver, annotations, of.backup, known)
}

// errWithoutGroups is the error of a cluster that knows no group snapshots.
var errWithoutGroups = errors.New("the cluster has no VolumeGroupSnapshots: install their definitions, with a " +
	"snapshot controller and a driver that support them, or take single snapshots by removing the label")
