package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

const (
	queuedBackups = 20
	queueLimit    = 4
	workOfOne     = time.Second
)

// queueOverWork reports the time from the creation of 20 backups to the end of the last, divided by the time of their
// bare work: one second each, four at a time. No backup overlaps another. The second figure is the same with every
// third backup invalid.
func queueOverWork(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	s, err := newSite(ctx, cleat)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := os.MkdirAll(s.PluginDir, 0o755); err != nil {
		return err
	}
	if err := build(ctx, "sleeper", filepath.Join(s.PluginDir, "sleeper")); err != nil {
		return err
	}
	server, err := s.Serve(ctx, s.client, "--concurrent-backups", fmt.Sprint(queueLimit))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	for i := range queuedBackups {
		if err := s.makeWork(ctx, i, workOfOne); err != nil {
			return err
		}
	}
	if _, _, err := s.backup(ctx, "warm-up", workSpec(0)); err != nil {
		return err
	}
	for _, figure := range []struct {
		name    string
		invalid int // every invalid-th backup is invalid; 0 means none
	}{{"queue_over_work", 0}, {"queue_over_work_invalid", 3}} {
		var ratios []float64
		for run := range runs {
			elapsed, valid, err := s.runQueue(ctx, fmt.Sprintf("run-%d-%d", figure.invalid, run), figure.invalid)
			if err != nil {
				return err
			}
			bare := workOfOne * time.Duration((valid+queueLimit-1)/queueLimit)
			ratios = append(ratios, elapsed.Seconds()/bare.Seconds())
			say("%s: %d backups of one second, %d valid, %d at once: %.3fs over %s, ratio %.2f", figure.name, queuedBackups,
				valid, queueLimit, elapsed.Seconds(), bare, ratios[run])
		}
		report(figure.name, median(ratios))
	}
	return nil
}

func workNamespace(i int) string { return fmt.Sprintf("work-%02d", i) }

// workSpec returns the spec of a backup of one namespace that takes a second.
func workSpec(i int) map[string]any {
	return map[string]any{"includedNamespaces": []any{workNamespace(i)}, "includedResources": []any{"configmaps"}}
}

// makeWork creates the namespace of such a backup.
func (s *site) makeWork(ctx context.Context, i int, length time.Duration) error {
	namespaces := s.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	_, err := namespaces.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": workNamespace(i)},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = s.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(
		workNamespace(i),
	).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "work"}, "data": map[string]any{
			"sleep": length.String(),
		},
	}}, metav1.CreateOptions{})
	return err
}

// runQueue creates the backups and waits until all have ended. It returns the time, and how many were valid.
func (s *site) runQueue(ctx context.Context, prefix string, invalid int) (time.Duration, int, error) {
	backups := s.dynamic.Resource(schema.GroupVersionResource{Group: "velero.io", Version: "v1",
		Resource: "backups"}).Namespace(roundtrip.Namespace)
	watch, err := backups.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer watch.Stop()
	open, valid := map[string]bool{}, 0
	began := time.Now()
	for i := range queuedBackups {
		name, spec := fmt.Sprintf("%s-%02d", prefix, i), workSpec(i)
		if invalid > 0 && i%invalid == invalid-1 {
			spec["storageLocation"] = "nowhere"
		} else {
			valid++
		}
		open[name] = true
		_, err := backups.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": map[string]any{"name": name}, "spec": spec,
		}}, metav1.CreateOptions{})
		if err != nil {
			return 0, 0, err
		}
	}
	for event := range watch.ResultChan() {
		o, ok := event.Object.(*unstructured.Unstructured)
		if !ok || !open[o.GetName()] {
			continue
		}
		switch phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase {
		case "Completed", "FailedValidation":
			delete(open, o.GetName())
			if len(open) == 0 {
				return time.Since(began), valid, nil
			}
		case "PartiallyFailed", "Failed":
			return 0, 0, fmt.Errorf("backup %s ended %s: %v", o.GetName(), phase, o.Object["status"])
		}
	}
	return 0, 0, fmt.Errorf("the watch ended early: %w", context.Cause(ctx))
}
