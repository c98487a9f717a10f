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
	"k8s.io/client-go/dynamic"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

// site is a fresh control plane with cleat installed.
type site struct {
	roundtrip.Site
	cluster *controlplane.Cluster
	client  *world.Client
	dynamic dynamic.Interface
}

// newSite starts a control plane and installs cleat. The caller must close it.
func newSite(ctx context.Context, cleat string, flags ...string) (_ *site, err error) {
	s := &site{}
	if s.cluster, err = controlplane.Start(ctx, controlplane.Options{APIServerFlags: flags}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	work := filepath.Join(s.cluster.Dir, "cleat")
	s.Site = roundtrip.Site{
		Cleat: cleat, PluginDir: filepath.Join(work, "plugins"), Kubeconfig: s.cluster.Kubeconfig,
		S3: s.cluster.S3, Bucket: "bench", WorkDir: work,
	}
	for _, dir := range []string{work, filepath.Join(s.S3.Dir, s.Bucket)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if s.client, err = world.NewClient(s.Kubeconfig); err != nil {
		return nil, err
	}
	if s.dynamic, err = dynamic.NewForConfig(s.client.Config()); err != nil {
		return nil, err
	}
	return s, s.Install(ctx, s.client)
}

// newAuditedSite is newSite with an API server that logs requests to the file audit.log of a directory.
func newAuditedSite(ctx context.Context, cleat, dir string) (*site, string, error) {
	policy, audit := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, "", err
	}
	s, err := newSite(ctx, cleat, "--audit-policy-file="+policy, "--audit-log-path="+audit, "--audit-log-mode=blocking")
	return s, audit, err
}

// onSite returns a benchmark that runs on a site of its own.
func onSite(
	run func(ctx context.Context, s *site, report func(string, float64)) error,
) func(context.Context, string, func(string, float64)) error {
	return func(ctx context.Context, cleat string, report func(string, float64)) (err error) {
		s, err := newSite(ctx, cleat)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		return run(ctx, s, report)
	}
}

// onPopulatedSite is onSite with the objects of the backup benchmarks.
func onPopulatedSite(
	run func(ctx context.Context, s *site, report func(string, float64)) error,
) func(context.Context, string, func(string, float64)) error {
	return onSite(func(ctx context.Context, s *site, report func(string, float64)) error {
		if err := s.populate(ctx); err != nil {
			return err
		}
		return run(ctx, s, report)
	})
}

func (s *site) close() error { return s.cluster.Stop() }

// run creates a Backup or Restore and waits until it is Completed. It returns the time in between and the object at its
// end.
func (s *site) run(
	ctx context.Context, resource, kind, name string, spec map[string]any,
) (time.Duration, *unstructured.Unstructured, error) {
	took, ended, err := s.toItsEnd(ctx, resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "velero.io/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}})
	if err != nil {
		return 0, nil, err
	}
	if phase, _, _ := unstructured.NestedString(ended.Object, "status", "phase"); phase != "Completed" {
		return 0, nil, fmt.Errorf("%s %s ended %s: %v", kind, name, phase, ended.Object["status"])
	}
	return took, ended, nil
}

// toItsEnd creates a Backup or Restore and waits until it ends, in whatever phase.
func (s *site) toItsEnd(
	ctx context.Context, resource string, o *unstructured.Unstructured,
) (time.Duration, *unstructured.Unstructured, error) {
	r := s.dynamic.Resource(schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: resource}).Namespace(
		roundtrip.Namespace,
	)
	watch, err := r.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + o.GetName()})
	if err != nil {
		return 0, nil, fmt.Errorf("watch %s: %w", resource, err)
	}
	defer watch.Stop()
	began := time.Now()
	if _, err = r.Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return 0, nil, fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	for event := range watch.ResultChan() {
		now, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		switch phase, _, _ := unstructured.NestedString(now.Object, "status", "phase"); phase {
		case "Completed", "FailedValidation", "PartiallyFailed", "Failed":
			return time.Since(began), now, nil
		}
	}
	return 0, nil, fmt.Errorf("%s %s: the watch ended early: %w", o.GetKind(), o.GetName(), context.Cause(ctx))
}

func (s *site) backup(
	ctx context.Context, name string, spec map[string]any,
) (time.Duration, *unstructured.Unstructured, error) {
	return s.run(ctx, "backups", "Backup", name, spec)
}

func (s *site) restore(
	ctx context.Context, name string, spec map[string]any,
) (time.Duration, *unstructured.Unstructured, error) {
	return s.run(ctx, "restores", "Restore", name, spec)
}

func (s *site) get(ctx context.Context, resource, name string) (*unstructured.Unstructured, error) {
	gvr := schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: resource}
	return s.dynamic.Resource(gvr).Namespace(roundtrip.Namespace).Get(ctx, name, metav1.GetOptions{})
}
