package claims

import (
	"context"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewBackup makes velero.io/pv: with a claim that is bound, its PersistentVolume is backed up, and what an
// earlier restore, or the way the claim got its volume, left in the claim is not stored. A claim that is not
// bound is stored as it is.
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
	// The volume is there; where its first content came from may be gone when it is restored.
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
	framework.Log(ctx).Debug("a claim brings its volume", "namespace", input.Item.GetNamespace(), "name", input.Item.GetName(),
		"volume", volume, "labels not stored", dropped)
	return biav1.NewExecuteOutput(input.Item).
		WithItems(framework.ResourceIdentifier{Resource: "persistentvolumes", Name: volume}), nil
}

// boundVolume is the name of the PersistentVolume that claim is bound to; "" when it is not.
func boundVolume(claim map[string]any) (string, error) {
	phase, err := field.Text(claim, "status", "phase")
	if err != nil || phase != "Bound" {
		return "", err
	}
	return field.Text(claim, "spec", "volumeName")
}

// dropSelector takes the selector away, because with one no volume can be provisioned for the claim when it is
// restored. Where the empty storage class says that none is ever provisioned the selector stays, without the
// labels that a restore had put into it.
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

// leftOver finds the labels that earlier backups and restores put on a claim.
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
