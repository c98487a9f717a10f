package expose

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/node/settings"
)

// copiedLabel of a Secret or ConfigMap in the namespace of the agents is the namespace of the object of which it is a
// copy.
const copiedLabel = "cleat.dev/copied-from"

// copies makes the objects of a namespace that its CSI driver looks for beside a claim available beside the claim of a
// load. Loads of the same namespace share a copy, which lists them as its owners.
func (v *Volumes) copies(ctx context.Context, o owner, from string, names settings.Copies) error {
	for _, name := range names.SecretNames {
		source, copied := new(corev1.Secret), new(corev1.Secret)
		err := v.copied(ctx, o, client.ObjectKey{Namespace: from, Name: name}, source, copied, func() bool {
			same := reflect.DeepEqual(source.Data, copied.Data)
			copied.Type, copied.Data = source.Type, source.Data
			return same
		})
		if err != nil {
			return err
		}
	}
	for _, name := range names.ConfigMapNames {
		source, copied := new(corev1.ConfigMap), new(corev1.ConfigMap)
		err := v.copied(ctx, o, client.ObjectKey{Namespace: from, Name: name}, source, copied, func() bool {
			same := reflect.DeepEqual(source.Data, copied.Data) && reflect.DeepEqual(source.BinaryData, copied.BinaryData)
			copied.Data, copied.BinaryData = source.Data, source.BinaryData
			return same
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copied makes sure that there is a copy of source that belongs to a load. fill gives copied the content of source, and
// reports whether it had it.
func (v *Volumes) copied(
	ctx context.Context, o owner, of client.ObjectKey, source, copied client.Object, fill func() (same bool),
) error {
	what, at := fmt.Sprintf("%s %s", nameOf(source), of), client.ObjectKey{Namespace: o.GetNamespace(), Name: of.Name}
	err := v.Cluster.Live.Get(ctx, of, source)
	if apierrors.IsNotFound(err) {
		return node.Pending(fmt.Sprintf("%s, which the ConfigMap of the node agents names, does not exist", what))
	}
	if err != nil {
		return fmt.Errorf("get %s, which the ConfigMap of the node agents names: %w", what, err)
	}
	err = v.Cluster.Live.Get(ctx, at, copied)
	switch {
	case apierrors.IsNotFound(err):
		fill()
		o.describe(copied)
		copied.SetName(at.Name)
		copied.SetOwnerReferences([]metav1.OwnerReference{o.shares()})
		copied.GetLabels()[copiedLabel] = velerov1.ValidLabelValue(of.Namespace)
		if err := v.Cluster.Create(ctx, copied); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("copy %s to namespace %s: %w", what, at.Namespace, err)
		}
		return nil // another load may just have created it; the next call looks at it
	case err != nil:
		return fmt.Errorf("get %s %s: %w", nameOf(source), at, err)
	}
	same, from := fill(), copied.GetLabels()[copiedLabel]
	switch {
	case from == "" && same: // of somebody else, and as good
		return nil
	case from == "":
		return &node.Final{Err: fmt.Errorf("%s cannot be copied to namespace %s, which has another one of that name", what,
			at.Namespace)}
	case copied.GetDeletionTimestamp() != nil, !same && !onlyOf(copied, o), from != velerov1.ValidLabelValue(of.Namespace):
		return node.Pending(fmt.Sprintf("%s cannot be copied to namespace %s while other loads use another one of that name",
			what, at.Namespace))
	case same && isSharedBy(copied, o):
		return nil
	}
	if !isSharedBy(copied, o) {
		copied.SetOwnerReferences(append(copied.GetOwnerReferences(), o.shares()))
	}
	if err := v.Cluster.Update(ctx, copied); err != nil {
		return fmt.Errorf("share %s %s: %w", nameOf(source), at, err)
	}
	return nil
}

// shares returns the reference of a load in what it shares with others.
func (o owner) shares() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.kind.GroupVersion().String(), Kind: o.kind.Kind, Name: o.GetName(),
		UID: o.GetUID()}
}

func isSharedBy(object client.Object, o owner) bool {
	return slices.Contains(object.GetOwnerReferences(), o.shares())
}

// onlyOf reports whether no other load uses an object.
func onlyOf(object client.Object, o owner) bool {
	return len(object.GetOwnerReferences()) == 1 && isSharedBy(object, o)
}

// dropCopies deletes the copies that only a load has used. Those that the settings do not name any more are deleted by
// Kubernetes, with the load.
func (v *Volumes) dropCopies(ctx context.Context, o owner, names settings.Copies) error {
	drop := func(name string, copied client.Object) error {
		err := v.Cluster.Live.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, copied)
		if apierrors.IsNotFound(err) || err == nil && (copied.GetLabels()[copiedLabel] == "" || !isSharedBy(copied, o)) {
			return nil
		}
		version := copied.GetResourceVersion()
		switch {
		case err != nil:
		case onlyOf(copied, o):
			err = client.IgnoreNotFound(v.Cluster.Delete(ctx, copied, client.Preconditions{ResourceVersion: &version}))
		default:
			copied.SetOwnerReferences(slices.DeleteFunc(copied.GetOwnerReferences(),
				func(r metav1.OwnerReference) bool { return r == o.shares() }))
			err = v.Cluster.Update(ctx, copied)
		}
		if err != nil {
			return fmt.Errorf("delete %s %s, which was copied for %s: %w", nameOf(copied), name, o, err)
		}
		return nil
	}
	for _, name := range names.SecretNames {
		if err := drop(name, new(corev1.Secret)); err != nil {
			return err
		}
	}
	for _, name := range names.ConfigMapNames {
		if err := drop(name, new(corev1.ConfigMap)); err != nil {
			return err
		}
	}
	return nil
}
