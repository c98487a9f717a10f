package claims

import (
	"context"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewBackup returns velero.io/pv. It adds the PersistentVolume of a bound claim to the backup and removes from the
// claim what an earlier restore or the provisioning of the volume left in it. A claim that is not bound is stored
// unchanged.
func NewBackup(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
	return &backup{}, nil
}

type backup struct{}

func (*backup) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (a *backup) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	claim := input.Item.Object
	volume, err := boundVolume(claim)
	if err != nil || volume == "" {
		return nil, err
	}
	// The volume exists, but the source of its first content may not exist any more when it is restored.
	for _, source := range []string{"dataSource", "dataSourceRef"} {
		if _, err := field.Remove(claim, "spec", source); err != nil {
			return nil, err
		}
	}
	if err := dropSelector(claim); err != nil {
		return nil, err
	}
	dropped, err := field.Drop(claim, leftOver(input.Backup.Name), "metadata", "labels")
	if err != nil {
		return nil, err
	}
	framework.Log(ctx).Debug("a claim brings its volume", "namespace", input.Item.GetNamespace(), "name",
		input.Item.GetName(),
		"volume", volume, "labels not stored", dropped)
	return biav1.NewExecuteOutput(input.Item).
		WithItems(framework.ResourceIdentifier{Resource: "persistentvolumes", Name: volume}), nil
}

// boundVolume returns the name of the PersistentVolume to which the claim is bound, or "".
func boundVolume(claim map[string]any) (string, error) {
	phase, err := field.Text(claim, "status", "phase")
	if err != nil || phase != "Bound" {
		return "", err
	}
	return field.Text(claim, "spec", "volumeName")
}

// dropSelector removes the selector, because no volume can be provisioned for a restored claim that has one. With the
// empty storage class, which disables provisioning, it removes only the labels that a restore has added to the
// selector.
func dropSelector(claim map[string]any) error {
	spec, err := field.Object(claim, "spec")
	if err != nil {
		return err
	}
	class, err := field.Text(spec, "storageClassName")
	if err != nil {
		return err
	}
	if spec["storageClassName"] == nil || class != "" {
		delete(spec, "selector")
		return nil
	}
	ours := func(key, _ string) bool { return strings.HasPrefix(key, "velero.io/") }
	_, err = field.Drop(claim, ours, "spec", "selector", "matchLabels")
	return err
}

// leftOver returns a function that reports whether earlier backups or restores added a label to a claim.
func leftOver(backupName string) func(key, value string) bool {
	return func(key, value string) bool {
		switch key {
		case velerov1.RestoreNameLabel, velerov1.VolumeSnapshotLabel, velerov1.MustIncludeAdditionalItemsAnnotation:
			return true
		case velerov1.BackupNameLabel:
			return value != velerov1.ValidLabelValue(backupName)
		}
		return false
	}
}
