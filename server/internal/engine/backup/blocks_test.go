package backup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
)

// relating is an item block action with fixed relations, by "namespace/name".
type relating struct {
	name     string
	selector framework.ResourceSelector
	related  map[string][]framework.ResourceIdentifier
	err      error

	mu    sync.Mutex
	calls []string
}

func (r *relating) Name() string { return r.name }

func (r *relating) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return r.selector, nil
}

func (r *relating) GetRelatedItems(_ context.Context, item, backupJSON []byte) ([]framework.ResourceIdentifier, error) {
	if !strings.Contains(string(backupJSON), `"name":"b"`) || !strings.Contains(string(item), `"apiVersion":"v1"`) {
		return nil, fmt.Errorf("unexpected request for %.200s of %s", item, backupJSON)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, identity(item))
	return r.related[identity(item)], r.err
}

// order returns an action that records the items in the order in which they are backed up.
func order(kinds ...string) (*testAction, *[]string) {
	var mu sync.Mutex
	calls := &[]string{}
	return &testAction{name: "example.com/order", selector: framework.ResourceSelector{IncludedResources: kinds},
		execute: func(item []byte) (*backupitemaction.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			*calls = append(*calls, identity(item))
			return &backupitemaction.Result{Item: item}, nil
		}}, calls
}

func TestRelatedItemsAreBackedUpTogether(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	settings, password := id("", "configmaps", "shop-prod", "settings"), id("", "secrets", "shop-prod", "password")
	for name, test := range map[string]struct {
		related  map[string][]framework.ResourceIdentifier
		err      error
		order    []string // of pods, config maps, secrets and persistent volumes, where it matters
		warnings []string
	}{
		"none": {order: []string{"shop-prod/db-0"}},
		"recursively, each once": {
			related: map[string][]framework.ResourceIdentifier{
				"shop-prod/db-0":     {password, password},
				"shop-prod/password": {settings, id("", "pods", "shop-prod", "db-0"), password},
				"shop-prod/settings": {id("", "persistentvolumes", "ignored", "fixture-pv")},
			},
			order: []string{"shop-prod/db-0", "shop-prod/password", "shop-prod/settings", "fixture-pv"},
		},
		"not those that the filters exclude": {
			related: map[string][]framework.ResourceIdentifier{"shop-prod/db-0": {
				id("", "configmaps", "shop-test", "settings"), id("", "configmaps", "shop-prod", "skipped"), id("", "configmaps",
					"shop-prod", "leaving"), settings,
			}},
			order: []string{"shop-prod/db-0", "shop-prod/settings"},
		},
		"not those that cannot be found": {
			related: map[string][]framework.ResourceIdentifier{"shop-prod/db-0": {
				id("", "configmaps", "shop-prod", "missing"), id("", "unicorns", "", "x"), id("", "secrets", "", "password"),
				settings,
			}},
			order: []string{"shop-prod/db-0", "shop-prod/settings"},
			warnings: []string{
				" resource: /configmaps name: /missing message: /related item does not exist, it is left out",
				" resource: /pods name: /db-0 message: /related item secrets/password cannot be backed up with it error: /its " +
					"namespace is missing",
				" resource: /pods name: /db-0 message: /related item unicorns/x cannot be backed up with it error: /unicorns is " +
					"not a resource of this cluster",
			},
		},
		"not those of a failing action": {
			related: map[string][]framework.ResourceIdentifier{"shop-prod/db-0": {settings}},
			err:     errors.New("no luck"),
			order:   []string{"shop-prod/db-0"},
			warnings: []string{" resource: /pods name: /db-0 message: " +
				"/error executing an item block action, the items that it relates are not backed up in one block error: /no luck"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocks := &relating{name: "example.com/relate", selector: framework.ResourceSelector{
				IncludedResources: []string{"pods", "secrets", "configmaps"},
			}, related: test.related, err: test.err}
			if test.err != nil {
				blocks.selector.IncludedResources = []string{"pods"}
			}
			action, calls := order("pods", "configmaps", "secrets", "persistentvolumes")
			plain := take(t.Context(), t, deps, backup.Request{Backup: only("shop-prod")})
			b := take(t.Context(), t, deps, backup.Request{
				Backup: only("shop-prod"), Actions: []backupitemaction.Action{action}, BlockActions: []itemblockaction.Action{
					blocks,
				},
			})
			require.Zero(t, b.Errors, b.Results)
			require.Equal(t, test.order, (*calls)[:len(test.order)], "pods are listed first")
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(*calls))), len(*calls), "each is backed up once: %v",
				*calls)
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(blocks.calls))), len(blocks.calls),
				"each is asked about once: %v", blocks.calls)
			for object := range plain.objects {
				require.Contains(t, b.objects, object)
			}
			require.ElementsMatch(t, test.warnings, b.Results.Warnings.Namespaces["shop-prod"])
			require.Equal(t, b.Items, len(b.objects))
		})
	}
}

func TestOneWorkerBacksUpABlock(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	deps.Workers = 8
	blocks := &relating{name: "example.com/relate",
		selector: framework.ResourceSelector{IncludedResources: []string{"pods"}},
		related: map[string][]framework.ResourceIdentifier{
			"shop-prod/db-0": {id("", "configmaps", "shop-prod", "settings"), id("", "secrets", "shop-prod", "password"),
				id("", "services", "shop-prod", "web")},
		}}
	inBlock := []string{"shop-prod/db-0", "shop-prod/settings", "shop-prod/password", "shop-prod/web"}
	var mu sync.Mutex
	var seen []string
	action := &testAction{name: "example.com/watch", selector: framework.ResourceSelector{
		IncludedResources: []string{"pods", "configmaps", "secrets", "services"}, IncludedNamespaces: []string{"shop-prod"},
	}, execute: func(item []byte) (*backupitemaction.Result, error) {
		if slices.Contains(inBlock, identity(item)) {
			if !mu.TryLock() {
				return nil, errors.New("two workers back up one block")
			}
			defer mu.Unlock()
			seen = append(seen, identity(item))
		}
		return &backupitemaction.Result{Item: item}, nil
	}}
	for range 20 {
		seen = nil
		b := take(t.Context(), t, deps, backup.Request{
			Backup: only("shop-prod"), Actions: []backupitemaction.Action{action}, BlockActions: []itemblockaction.Action{
				blocks,
			},
		})
		require.Zero(t, b.Errors, b.Results)
		require.Equal(t, inBlock, seen)
	}
}

func TestOrderedResourcesBringTheirBlock(t *testing.T) {
	t.Parallel()
	blocks := &relating{name: "example.com/relate",
		selector: framework.ResourceSelector{IncludedResources: []string{"secrets"}},
		related: map[string][]framework.ResourceIdentifier{
			"shop-prod/password": {id("", "services", "shop-prod", "web")},
		}}
	action, calls := order("secrets", "services")
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{
		Backup: newBackup(func(s *velerov1.BackupSpec) {
			s.IncludedNamespaces = []string{"shop-prod", "bank-prod"}
			s.OrderedResources = map[string]string{"secrets": "shop-prod/password,bank-prod/password"}
		}),
		Actions: []backupitemaction.Action{action}, BlockActions: []itemblockaction.Action{blocks},
	})
	require.Zero(t, b.Errors, b.Results)
	require.Equal(t, []string{"shop-prod/password", "bank-prod/password", "shop-prod/web"}, *calls)
}

func TestAdditionalItemOfTheSameBlockIsBackedUpFirst(t *testing.T) {
	t.Parallel()
	password := id("", "secrets", "shop-prod", "password")
	blocks := &relating{name: "example.com/relate",
		selector: framework.ResourceSelector{IncludedResources: []string{"pods"}},
		related: map[string][]framework.ResourceIdentifier{
			"shop-prod/db-0": {password},
		}}
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{
		Backup: only("shop-prod"), Actions: []backupitemaction.Action{requesting(nil, password)},
		BlockActions: []itemblockaction.Action{blocks},
	})
	require.Zero(t, b.Errors, b.Results)
	at := func(path string) int { return slices.Index(b.entries, path) }
	require.Less(t, at("resources/secrets/namespaces/shop-prod/password.json"),
		at("resources/pods/namespaces/shop-prod/db-0.json"))
}

// TestLargeBlockIsBackedUpWhole relates more than fits into the memory for related items.
func TestLargeBlockIsBackedUpWhole(t *testing.T) { //nolint:paralleltest // the other tests would back up its objects, too
	const objects = 24
	config := fixtureWorld(t)
	create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", "large-blocks", nil, ""})
	var related []framework.ResourceIdentifier
	for i := range objects {
		name := fmt.Sprintf("part-%02d", i)
		secret := fixtureObject{"secrets", "v1", "Secret", "large-blocks", name, nil,
			`"stringData":{"p":"` + strings.Repeat("x", 700<<10) + `"}`}
		create(t.Context(), t, config, secret)
		t.Cleanup(func() { remove(context.Background(), t, config, secret) })
		related = append(related, id("", "secrets", "large-blocks", name))
	}
	create(t.Context(), t, config, fixtureObject{"configmaps", "v1", "ConfigMap", "large-blocks", "whole", nil, ""})
	blocks := &relating{name: "example.com/relate",
		selector: framework.ResourceSelector{IncludedResources: []string{"configmaps"}},
		related: map[string][]framework.ResourceIdentifier{
			"large-blocks/whole": related,
		}}
	b := take(t.Context(), t, depsFor(t, config),
		backup.Request{Backup: only("large-blocks"), BlockActions: []itemblockaction.Action{blocks}})
	require.Zero(t, b.Errors, b.Results)
	for i := range objects {
		require.Contains(t, b.objects, fmt.Sprintf("secrets:large-blocks/part-%02d", i))
	}
}
