package loadproof

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
)

// Labels and annotations that a signature covers: the object of the run to which the load belongs, and values that
// agents and actions derive from it.
var (
	signedLabels      = []string{velerov1.AsyncOperationIDLabel, velerov1.PVCUIDLabel}
	signedAnnotations = []string{velerov1.LoadVolumesAnnotation}
	// with the status
	signedWithStatus = []string{velerov1.LoadAttemptAnnotation, velerov1.LoadInterruptionsAnnotation}
)

// statement is the content of a signature. Its JSON is the same for the same content: members are sorted, and zero
// values are left out, as the API server and the Go types may or may not do.
type statement struct {
	Kind        string            `json:"kind"`
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Signature   string            `json:"signature,omitempty"` // of the load to which a status belongs
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        any               `json:"spec,omitempty"`
	Status      any               `json:"status,omitempty"`
}

// content is a load of one of the four kinds. A signature covers the fields of this version.
type content struct {
	kind         string
	spec, status any
	phase        velerov1.LoadPhase
}

func contentOf(load metav1.Object) (*content, error) {
	switch l := load.(type) {
	case *velerov1.PodVolumeBackup:
		return &content{"PodVolumeBackup", &l.Spec, &l.Status, l.Status.Phase}, nil
	case *velerov1.PodVolumeRestore:
		return &content{"PodVolumeRestore", &l.Spec, &l.Status, l.Status.Phase}, nil
	case *v2alpha1.DataUpload:
		return &content{"DataUpload", &l.Spec, &l.Status, l.Status.Phase}, nil
	case *v2alpha1.DataDownload:
		return &content{"DataDownload", &l.Spec, &l.Status, l.Status.Phase}, nil
	case *unstructured.Unstructured:
		typed, known := map[string]metav1.Object{
			"PodVolumeBackup": new(velerov1.PodVolumeBackup), "PodVolumeRestore": new(velerov1.PodVolumeRestore),
			"DataUpload": new(v2alpha1.DataUpload), "DataDownload": new(v2alpha1.DataDownload),
		}[l.GetKind()]
		if !known {
			return nil, fmt.Errorf("a %s is not a load, want a PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload",
				l.GetKind())
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(l.Object, typed); err != nil {
			return nil, fmt.Errorf("decode the %s: %w", l.GetKind(), err)
		}
		return contentOf(typed)
	default:
		return nil, fmt.Errorf("a %T is not a load, want a PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload",
			load)
	}
}

// statementOf returns the content of the signature of a load.
func statementOf(load metav1.Object) ([]byte, error) {
	if load.GetName() == "" || load.GetNamespace() == "" {
		return nil, fmt.Errorf("a load is signed with its namespace and its name, so it needs both; generateName cannot be " +
			"used")
	}
	c, err := contentOf(load)
	if err != nil {
		return nil, err
	}
	spec, err := fields(c.spec)
	if err != nil {
		return nil, err
	}
	delete(spec, "cancel")
	if pod, ok := spec["pod"].(map[string]any); ok && c.kind == "PodVolumeRestore" {
		delete(pod, "uid")
		prune(spec)
	}
	return json.Marshal(statement{
		Kind: c.kind, Namespace: load.GetNamespace(), Name: load.GetName(),
		Labels: some(load.GetLabels(), signedLabels), Annotations: some(load.GetAnnotations(), signedAnnotations), Spec: spec,
	})
}

// statusOf returns the content of the signature of a status.
func statusOf(load metav1.Object) ([]byte, error) {
	c, err := contentOf(load)
	if err != nil {
		return nil, err
	}
	status, err := fields(c.status)
	if err != nil {
		return nil, err
	}
	delete(status, "message")
	if !c.phase.Terminal() {
		delete(status, "progress")
	}
	return json.Marshal(statement{
		Kind: c.kind, Namespace: load.GetNamespace(), Name: load.GetName(),
		Signature:   load.GetAnnotations()[velerov1.LoadSignatureAnnotation],
		Annotations: some(load.GetAnnotations(), signedWithStatus), Status: status,
	})
}

// some returns those of the values whose keys are listed.
func some(values map[string]string, keys []string) map[string]string {
	found := map[string]string{}
	for _, key := range keys {
		if values[key] != "" {
			found[key] = values[key]
		}
	}
	return found
}

// fields returns the fields of a struct without those that are zero.
func fields(of any) (map[string]any, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	prune(all)
	return all, nil
}

// prune removes the members that are zero.
func prune(object map[string]any) {
	for key, value := range object {
		zero := false
		switch v := value.(type) {
		case nil:
			zero = true
		case bool:
			zero = !v
		case string:
			zero = v == ""
		case json.Number:
			zero = v == "0"
		case []any:
			zero = len(v) == 0
		case map[string]any:
			prune(v)
			zero = len(v) == 0
		}
		if zero {
			delete(object, key)
		}
	}
}
