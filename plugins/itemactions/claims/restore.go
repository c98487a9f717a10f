package claims

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore makes velero.io/pvc: a claim comes without the annotations by which controllers of the other
// cluster noted that, by whom and on which node it was bound, so that it is bound anew. The PersistentVolume
// that it was bound to is restored before it; whether that makes sense for the volume is decided where
// volumes are restored.
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
		velerov1.VolumeSnapshotLabel, // as an annotation, of an earlier restore
		velerov1.DataUploadNameAnnotation,
	)
	dropped, err := field.Drop(input.Item.Object, bindings, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	// The status is in the backup only, it is not restored.
	volume, err := boundVolume(input.ItemFromBackup.Object)
	if err != nil {
		return nil, err
	}
	if volume == "" && len(dropped) == 0 {
		return nil, nil
	}
	framework.Log(ctx).Debug("a claim will be bound anew", "namespace", input.Item.GetNamespace(), "name", input.Item.GetName(),
		"volume", volume, "annotations removed", dropped)
	output := riav1.NewExecuteOutput(input.Item)
	if volume != "" {
		output.WithItems(framework.ResourceIdentifier{Resource: "persistentvolumes", Name: volume})
	}
	return output, nil
}
