package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

// dryRun makes a dry run of a backup of everything and returns how long it took.
func (s *site) dryRun(ctx context.Context, name string) (time.Duration, error) {
	dry := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": velerov1.SchemeGroupVersion.String(), "kind": "Backup",
		"metadata": map[string]any{"name": name,
			"annotations": map[string]any{velerov1.DryRunAnnotation: velerov1.DryRunRequested}},
		"spec": map[string]any{},
	}}
	backups := s.dynamic.Resource(schema.GroupVersionResource{Group: "velero.io", Version: "v1",
		Resource: "backups"}).Namespace(roundtrip.Namespace)
	began := time.Now()
	if _, err := backups.Create(ctx, dry, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for {
		now, err := backups.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		switch now.GetAnnotations()[velerov1.DryRunAnnotation] {
		case velerov1.DryRunDone:
			return time.Since(began), nil
		case velerov1.DryRunFailed:
			texts, _, _ := unstructured.NestedStringSlice(now.Object, "status", "validationErrors")
			return 0, fmt.Errorf("the dry run %s failed: %v", name, texts)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
