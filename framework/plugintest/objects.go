package plugintest

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Object returns the object that text describes, in YAML or JSON. It must have an apiVersion, a kind and a name.
func Object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("object is not YAML: %v\n%s", err, text)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatalf("object is none of Kubernetes: %v\n%s", err, text)
	}
	if object.GetAPIVersion() == "" || object.GetName() == "" {
		t.Fatalf("object needs apiVersion and metadata.name:\n%s", text)
	}
	return object
}

// Backup returns a running backup, as a host passes it.
func Backup(name string) *velerov1.Backup {
	return &velerov1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: name, UID: types.UID("backup-" + name)},
		Spec:       velerov1.BackupSpec{StorageLocation: "default"},
		Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseInProgress},
	}
}

// Restore returns a running restore of a backup, as a host passes it.
func Restore(name, backup string) *velerov1.Restore {
	return &velerov1.Restore{
		TypeMeta:   metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Restore"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: name, UID: types.UID("restore-" + name)},
		Spec:       velerov1.RestoreSpec{BackupName: backup},
		Status:     velerov1.RestoreStatus{Phase: velerov1.RestorePhaseInProgress},
	}
}

// encode returns the JSON of object; nil becomes an empty object.
func encode[T any](object *T) []byte {
	if object == nil {
		return []byte("{}")
	}
	raw, err := json.Marshal(object)
	if err != nil { // the types contain only what JSON can represent
		panic(err)
	}
	return raw
}

// encodeItem returns the JSON of item. A nil item becomes nil, which the plugin must reject.
func encodeItem(item *unstructured.Unstructured) []byte {
	if item == nil {
		return nil
	}
	return encode(&item.Object)
}

// decodeItem returns the item in an answer, or nil if there is none.
func decodeItem(raw []byte) (*unstructured.Unstructured, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // as the interfaces of the kinds have it
	}
	item := &unstructured.Unstructured{}
	if err := item.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	return item, nil
}
