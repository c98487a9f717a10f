package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

// dryRunOverBackup reports the time from the creation of a dry run to its end, divided by that of a backup of the same
// objects.
func dryRunOverBackup(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	s, err := newPopulatedSite(ctx, cleat)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	server, err := s.Serve(ctx, s.client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if _, _, err := s.backup(ctx, "warm-up", nil); err != nil {
		return err
	}
	if _, err := s.dryRun(ctx, "warm-up-dry-run"); err != nil {
		return err
	}
	var ratios []float64
	for run := range runs {
		whole, _, err := s.backup(ctx, fmt.Sprintf("run-%d", run), nil)
		if err != nil {
			return err
		}
		dry, err := s.dryRun(ctx, fmt.Sprintf("run-%d-dry-run", run))
		if err != nil {
			return err
		}
		ratios = append(ratios, dry.Seconds()/whole.Seconds())
		say("dry run %.3fs, backup %.3fs, ratio %.2f", dry.Seconds(), whole.Seconds(), ratios[run])
	}
	report("dryrun_over_backup", median(ratios))
	return nil
}

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
