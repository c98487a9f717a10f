package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/velero"
	"github.com/cleat-dev/cleat/server/test/world"
)

// compareRuns is how often each server does each work; the median counts.
const compareRuns = 3

// contestant is a server in the comparison.
type contestant struct {
	name  string
	serve func(ctx context.Context, flags ...string) (process, error)
}

// process is a running server.
type process interface {
	PID() int
	Stop() error
}

// compare measures the same works of cleat and the real Velero, and prints tables in Markdown. It includes the works
// whose names contain only.
func compare(ctx context.Context, cleat, only string) error {
	built, err := velero.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(works, func(w work) bool { return strings.Contains(w.name, only) }) {
		err = compareServers(ctx, cleat, built, only)
	}
	if err == nil && strings.Contains(fleetWork, only) {
		err = compareFleet(ctx, cleat, built)
	}
	if err == nil && slices.ContainsFunc(comparedVolumes, func(w volumeWorks) bool { return w.included(only) }) {
		err = compareVolumes(ctx, cleat, built, only)
	}
	return err
}

// compareServers measures works of both servers on one cluster and one bucket, through the same plugins.
func compareServers(ctx context.Context, cleat string, built *velero.Programs, only string) (err error) {
	s, err := newSite(ctx, cleat)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	contestants, err := s.contestants(ctx, built)
	if err != nil {
		return err
	}
	spec := restoreSpec("plain")
	if err := s.client.CreateBare(ctx, world.Plain(spec, restoredItems/spec.Namespaces), world.Workers); err != nil {
		return err
	}
	if err := s.populate(ctx); err != nil {
		return err
	}
	if err := s.backUpPlain(ctx, contestants[1]); err != nil {
		return err
	}
	fmt.Printf("\n| work | seconds cleat | Velero %s | CPU seconds cleat | Velero | MB cleat | Velero "+
		"|\n|---|---|---|---|---|---|---|\n", velero.Version)
	for i := range works {
		if !strings.Contains(works[i].name, only) {
			continue
		}
		var measured []usage
		for _, c := range contestants {
			u, err := s.measure(ctx, c, &works[i])
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, works[i].name, err)
			}
			measured = append(measured, u)
		}
		a, b := measured[0], measured[1]
		fmt.Printf("| %s | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f |\n", works[i].name, a.seconds, b.seconds, a.cpu, b.cpu,
			a.megabytes, b.megabytes)
	}
	return nil
}

// work is a task for both servers.
type work struct {
	name   string
	flags  []string
	plugin string // of this command, which acts on each item; empty for none
	runs   int    // 0 for compareRuns
	do     func(s *site, ctx context.Context, name string) (items int64, err error)
}

const (
	noLimit       = "1000000"
	atOnce        = 5
	restoredItems = 2000
)

var works = []work{
	{name: "a backup of 6,900 objects", do: (*site).backUpAll},
	{name: "the same with an action on each", plugin: "labelall", do: (*site).backUpAll},
	{name: "five backups of 1,300 objects, all created at once", do: (*site).backUpFive},
	{name: "the same with `--concurrent-backups 5`", flags: []string{"--concurrent-backups", "5"}, do: (*site).backUpFive},
	{name: "a restore of 2,000 objects", runs: 1, do: (*site).restorePlain},
	{name: "the same with `--client-qps` and `--client-burst` without limit",
		flags: []string{"--client-qps", noLimit, "--client-burst", noLimit}, do: (*site).restorePlain},
}

// contestants returns cleat and Velero, for a location whose object store is Velero's plugin.
func (s *site) contestants(ctx context.Context, built *velero.Programs) ([]contestant, error) {
	if err := s.prepareComparison(ctx, built); err != nil {
		return nil, err
	}
	home := filepath.Join(s.WorkDir, "velero")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	other := velero.Site{Programs: built, Kubeconfig: s.Kubeconfig, Namespace: roundtrip.Namespace, WorkDir: home}
	return []contestant{
		{"cleat", func(ctx context.Context, flags ...string) (process, error) { return s.Serve(ctx, s.client, flags...) }},
		{"Velero", func(_ context.Context, flags ...string) (process, error) { return other.Serve(s.PluginDir, flags...) }},
	}, nil
}

// prepareComparison makes Velero's plugin the object store of the location.
func (s *site) prepareComparison(ctx context.Context, built *velero.Programs) error {
	if err := os.Mkdir(s.PluginDir, 0o755); err != nil {
		return err
	}
	const plugin = "velero-plugin-for-aws"
	if err := programs.CopyFile(filepath.Join(built.PluginDir, plugin), filepath.Join(s.PluginDir, plugin)); err != nil {
		return err
	}
	locations := s.dynamic.Resource(schema.GroupVersionResource{Group: "velero.io", Version: "v1",
		Resource: "backupstoragelocations"})
	// Both read the credentials from one file, as in an installation: concurrent backups of Velero read the
	// credentials of a location while it writes them.
	patch := []byte(`{"spec":{"provider":"aws","credential":null}}`)
	_, err := locations.Namespace(roundtrip.Namespace).Patch(ctx, "default", types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		return err
	}
	credentials := filepath.Join(s.WorkDir, "credentials")
	text := fmt.Appendf(nil, "[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", s.S3.AccessKey, s.S3.SecretKey)
	if err := errors.Join(os.WriteFile(credentials, text, 0o600),
		os.Setenv("AWS_SHARED_CREDENTIALS_FILE", credentials)); err != nil {
		return err
	}
	labels := map[string]any{"deploy": "velero"}
	deployment := &unstructured.Unstructured{Object: map[string]any{ // Velero reads it before a restore
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "velero"},
		"spec": map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"containers": []any{map[string]any{"name": "velero", "image": "velero/velero:" + velero.Version}},
				},
			}},
	}}
	deployments := s.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	_, err = deployments.Namespace(roundtrip.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
	return err
}

// measure starts a server and makes it do a work once to warm up, and then several times.
func (s *site) measure(ctx context.Context, c contestant, w *work) (_ usage, err error) {
	if w.plugin != "" {
		path := filepath.Join(s.PluginDir, w.plugin)
		if err := build(ctx, w.plugin, path); err != nil {
			return usage{}, err
		}
		defer func() { err = errors.Join(err, os.Remove(path)) }()
	}
	server, err := c.serve(ctx, w.flags...)
	if err != nil {
		return usage{}, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if _, _, err := s.backup(ctx, s.unique("warm-up"),
		map[string]any{"includedNamespaces": []any{"bench-00"}}); err != nil {
		return usage{}, err
	}
	runs := compareRuns
	if w.runs > 0 {
		runs = w.runs
	}
	var seconds, cpu, megabytes []float64
	for range runs {
		meter, err := startMeter(server.PID())
		if err != nil {
			return usage{}, err
		}
		began := time.Now()
		items, err := w.do(s, ctx, s.unique("run"))
		took := time.Since(began).Seconds()
		u, meterErr := meter.stop()
		if err := errors.Join(err, meterErr); err != nil {
			return usage{}, err
		}
		say("%s, %s: %d items in %.2fs, %.2fs CPU, %.0f MB", c.name, w.name, items, took, u.cpu, u.megabytes)
		seconds, cpu, megabytes = append(seconds, took), append(cpu, u.cpu), append(megabytes, u.megabytes)
	}
	return usage{seconds: median(seconds), cpu: median(cpu), megabytes: median(megabytes)}, nil
}

// unique returns a name that no object has yet.
func (s *site) unique(stem string) string {
	return fmt.Sprintf("%s-%d", stem, time.Now().UnixNano())
}

// backUpAll backs up the world of the benchmarks with all cluster-scoped objects, which Velero includes only on
// request.
func (s *site) backUpAll(ctx context.Context, name string) (int64, error) {
	_, done, err := s.backup(ctx, name, map[string]any{"includedNamespaces": []any{"bench-*"},
		"includeClusterResources": true})
	if err != nil {
		return 0, err
	}
	items, _, err := unstructured.NestedInt64(done.Object, "status", "progress", "itemsBackedUp")
	return items, err
}

// backUpFive creates five backups of four namespaces each, and waits for all.
func (s *site) backUpFive(ctx context.Context, name string) (items int64, err error) {
	type result struct {
		items int64
		err   error
	}
	results := make(chan result, atOnce)
	for i := range atOnce {
		var namespaces []any
		for n := range 4 {
			namespaces = append(namespaces, fmt.Sprintf("bench-%02d", 4*i+n))
		}
		go func() {
			_, done, err := s.backup(ctx, fmt.Sprintf("%s-%d", name, i), map[string]any{"includedNamespaces": namespaces,
				"includeClusterResources": false})
			if err != nil {
				results <- result{err: err}
				return
			}
			items, _, err := unstructured.NestedInt64(done.Object, "status", "progress", "itemsBackedUp")
			results <- result{items, err}
		}()
	}
	for range atOnce {
		r := <-results
		items, err = items+r.items, errors.Join(err, r.err)
	}
	return items, err
}

// restorePlain restores the objects that no controller changes, into new namespaces.
func (s *site) restorePlain(ctx context.Context, name string) (int64, error) {
	mapping := map[string]any{}
	spec := restoreSpec("plain")
	for n := range spec.Namespaces {
		mapping[spec.Namespace(n)] = fmt.Sprintf("%s-%02d", name, n)
	}
	_, done, err := s.restore(ctx, name, map[string]any{"backupName": plainBackup, "namespaceMapping": mapping})
	if err != nil {
		return 0, err
	}
	items, _, err := unstructured.NestedInt64(done.Object, "status", "progress", "itemsRestored")
	return items, err
}

// backUpPlain makes the backup that both servers restore. cleat validates the location before.
func (s *site) backUpPlain(ctx context.Context, c contestant) (err error) {
	first, err := s.Serve(ctx, s.client)
	if err == nil {
		err = first.Stop()
	}
	if err != nil {
		return err
	}
	server, err := c.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	_, err = s.backUpOf(ctx, plainBackup)
	return err
}

// plainBackup is the backup that both servers restore.
const plainBackup = "plain"
