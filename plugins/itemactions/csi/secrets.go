package csi

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

// secretKeys are the keys of the two annotations that name a secret of a driver: those that Velero looks for, or those
// that the snapshot controllers write.
type secretKeys struct{ name, namespace string }

var (
	deletionSecret = []secretKeys{
		{"csi.storage.k8s.io/snapshotter-secret-name", "csi.storage.k8s.io/snapshotter-secret-namespace"},
		{"snapshot.storage.kubernetes.io/deletion-secret-name", "snapshot.storage.kubernetes.io/deletion-secret-namespace"},
	}
	listSecret = []secretKeys{{"csi.storage.k8s.io/snapshotter-list-secret-name",
		"csi.storage.k8s.io/snapshotter-list-secret-namespace"}}
)

// secretsOf returns the secrets that an item names.
func secretsOf(item *unstructured.Unstructured, known []secretKeys) (found []framework.ResourceIdentifier) {
	annotations := item.GetAnnotations()
	for _, keys := range known {
		if name, namespace := annotations[keys.name], annotations[keys.namespace]; name != "" && namespace != "" {
			found = append(found, framework.ResourceIdentifier{Resource: "secrets", Namespace: namespace, Name: name})
		}
	}
	return found
}

// NewContents returns velero.io/csi-volumesnapshotcontent-backupper. It adds the secret with which a snapshot is
// deleted.
func NewContents(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
	return withSecrets{of: contentsResource, keys: deletionSecret}, nil
}

// NewClasses returns velero.io/csi-volumesnapshotclass-backupper. It adds the secret with which snapshots are listed.
func NewClasses(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
	return withSecrets{of: classesResource, keys: listSecret}, nil
}

type withSecrets struct {
	biav2.ExecuteOnly
	of   framework.ResourceIdentifier
	keys []secretKeys
}

func (a withSecrets) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return all(a.of), nil
}

func (a withSecrets) Execute(_ context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	secrets := secretsOf(input.Item, a.keys)
	if len(secrets) == 0 || isFinalizing(input.Backup) {
		return nil, nil
	}
	annotate(input.Item, map[string]string{velerov1.MustIncludeAdditionalItemsAnnotation: "true"})
	return biav2.NewExecuteOutput(input.Item).WithItems(secrets...), nil
}

// NewRestoredClasses returns velero.io/csi-volumesnapshotclass-restorer. It restores a class with the secret with which
// snapshots are listed.
func NewRestoredClasses(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
	return restoredClasses{}, nil
}

type restoredClasses struct{ riav2.ExecuteOnly }

func (restoredClasses) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return all(classesResource), nil
}

func (restoredClasses) Execute(_ context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	if wantsNoVolumes(input.Restore) {
		return &riav2.ExecuteOutput{SkipRestore: true}, nil
	}
	return &riav2.ExecuteOutput{AdditionalItems: secretsOf(input.ItemFromBackup, listSecret)}, nil
}
