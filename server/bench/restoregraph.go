package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/test/world"
)

// planMillion reports the cost of the order in which the items of a manifest of a million, in trees ten deep, are
// restored: plan_million, the seconds of reading the manifest twice and planning; plan_million_mb, the peak of resident
// memory; plan_million_growth, the seconds for an item over those with a tenth of the items.
func planMillion(ctx context.Context, _ string, report func(string, float64)) (err error) {
	w, err := newManifestWork(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	figures := map[int][]float64{}
	var memory []float64
	for _, items := range []int{manifestItems / 10, manifestItems} {
		if _, _, err := w.measure(ctx, "trees", w.file, fmt.Sprint(items)); err != nil {
			return err
		}
		for range runs {
			seconds, peak, err := w.measure(ctx, "plan", w.file)
			if err != nil {
				return err
			}
			say("%d items: planned in %.2f s with %.0f MB", items, seconds, peak)
			figures[items] = append(figures[items], seconds/float64(items))
			if items == manifestItems {
				memory = append(memory, peak)
			}
		}
	}
	each := median(figures[manifestItems])
	report("plan_million", each*manifestItems)
	report("plan_million_mb", median(memory))
	report("plan_million_growth", each/median(figures[manifestItems/10]))
	return nil
}

// The kind of the objects of restoreGraphOverFlat.
var links = schema.GroupVersionResource{Group: "bench.example.io", Version: "v1", Resource: "links"}

// restoreGraphOverFlat reports the time of a restore of 2,000 objects in chains of ten, each owned by the one before
// it, divided by the time of a restore of as many objects without owners.
func restoreGraphOverFlat(ctx context.Context, s *site, report func(string, float64)) (err error) {
	definition := world.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": links.Resource + "." + links.Group},
		"spec": map[string]any{
			"group": links.Group, "scope": "Namespaced", "names": map[string]any{"plural": links.Resource, "kind": "Link"},
			"versions": []any{map[string]any{"name": links.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}, Resource: "customresourcedefinitions"}
	if err := s.client.CreateBare(ctx, []world.Object{definition}, 1); err != nil {
		return err
	}
	server, err := s.Serve(ctx, s.client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	for name, owned := range map[string]bool{"graph": true, "flat": false} {
		if err := s.createChains(ctx, name, owned); err != nil {
			return err
		}
		if _, _, err := s.backup(ctx, name, map[string]any{"includedNamespaces": []any{name}}); err != nil {
			return err
		}
	}
	var ratios []float64
	for run := range runs + 1 {
		took := map[string]time.Duration{}
		for _, name := range []string{"graph", "flat"} {
			to := fmt.Sprintf("%s-%d", name, run)
			if took[name], _, err = s.restore(ctx, to, map[string]any{"backupName": name,
				"namespaceMapping": map[string]any{name: to}}); err != nil {
				return err
			}
		}
		say("graph %.2fs, flat %.2fs", took["graph"].Seconds(), took["flat"].Seconds())
		if run > 0 { // the first one is warmer for the second
			ratios = append(ratios, took["graph"].Seconds()/took["flat"].Seconds())
		}
	}
	report("restore_graph_over_flat", median(ratios))
	return nil
}

// createChains creates 200 chains of ten objects in a namespace, in which each is owned by the one before it if owned
// is set.
func (s *site) createChains(ctx context.Context, namespace string, owned bool) error {
	r := s.dynamic.Resource(links)
	home := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": namespace}}}
	if _, err := s.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, home,
		metav1.CreateOptions{}); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(world.Workers)
	for chain := range 200 {
		g.Go(func() error {
			var owner types.UID
			for depth := range 10 {
				// Names run against the order.
				name := func(depth int) string { return fmt.Sprintf("link-%d-%03d", 9-depth, chain) }
				link := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": links.GroupVersion().String(), "kind": "Link",
					"metadata": map[string]any{"name": name(depth)}, "spec": map[string]any{"content": fmt.Sprint(chain, depth)},
				}}
				if owned && depth > 0 {
					link.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: links.GroupVersion().String(), Kind: "Link",
						Name: name(depth - 1), UID: owner}})
				}
				made, err := r.Namespace(namespace).Create(ctx, link, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				owner = made.GetUID()
			}
			return nil
		})
	}
	return g.Wait()
}

// restoreRSSGrowth reports the peak memory of a server that restores 60,000 objects, divided by the peak memory of one
// that restores 6,000. Each server is a new process, which has not made the backup.
func restoreRSSGrowth(ctx context.Context, s *site, report func(string, float64)) error {
	peaks := map[string]float64{}
	for name, each := range map[string]int{"few": perNamespace, "many": 10 * perNamespace} {
		objects := plain(name, each)
		say("creating %d objects", len(objects))
		if err := s.client.CreateBare(ctx, objects, world.Workers); err != nil {
			return err
		}
		if _, _, err := s.alone(ctx, func() (time.Duration, error) { return s.backUpOf(ctx, name) }); err != nil {
			return err
		}
		var all []float64
		for run := range 3 {
			prefix := fmt.Sprintf("%s%d", name, run)
			took, peak, err := s.alone(ctx, func() (time.Duration, error) { return s.restoreFrom(ctx, name, prefix) })
			if err != nil {
				return err
			}
			say("%s: %.1f s, peak %.0f MB", prefix, took.Seconds(), peak)
			all = append(all, peak)
		}
		peaks[name] = median(all)
	}
	report("restore_rss_growth", peaks["many"]/peaks["few"])
	return nil
}

// callsPerRestoredItem reports the requests of a restore of 6,000 objects to the API server, from the creation of the
// Restore to its end, for each object.
func callsPerRestoredItem(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	dir, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, audit, err := newAuditedSite(ctx, cleat, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	server, err := s.prepareRestore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	began := time.Now()
	if _, err := s.restoreFrom(ctx, "source", "copy"); err != nil {
		return err
	}
	calls, verbs, err := callsBetween(audit, began, time.Now())
	items := len(plain("source", perNamespace))
	say("%d requests for %d objects: %v", calls, items, verbs)
	report("calls_per_restored_item", float64(calls)/float64(items))
	return err
}
