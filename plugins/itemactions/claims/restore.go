package claims

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore returns velero.io/pvc. It removes the annotations in which controllers of the other cluster recorded how
// the claim was bound and to which node, so that the claim is bound again. The PersistentVolume to which it was bound
// is restored first. Whether the volume itself is restored is decided elsewhere.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	bindings := field.OneOf(
		"pv.kubernetes.io/bind-completed",
		"pv.kubernetes.io/bound-by-controller",
		"volume.kubernetes.io/storage-provisioner",
		"volume.beta.kubernetes.io/storage-provisioner",
		"volume.kubernetes.io/selected-node",
		velerov1.VolumeSnapshotLabel, // an annotation of an earlier restore
		velerov1.DataUploadNameAnnotation,
	)
	dropped, err := field.Drop(input.Item.Object, bindings, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	// The status exists only in the backup; it is not restored.
	volume, err := boundVolume(input.ItemFromBackup.Object)
	if err != nil {
		return nil, err
	}
	if volume == "" && len(dropped) == 0 {
		return nil, nil
	}
	framework.Log(ctx).Debug("a claim will be bound anew", "namespace", input.Item.GetNamespace(), "name",
		input.Item.GetName(),
		"volume", volume, "annotations removed", dropped)
	output := riav1.NewExecuteOutput(input.Item)
	if volume != "" {
		output.WithItems(framework.ResourceIdentifier{Resource: "persistentvolumes", Name: volume})
	}
	return output, nil
}
