package backup_test

import (
	"context"
	"encoding/json"
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
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// testAction is an action that consists of functions.
type testAction struct {
	versioning.OneByOne

	name     string
	selector framework.ResourceSelector
	refuses  error
	starts   versioning.Starts
	execute  func(item []byte) (*backupitemaction.Result, error)

	mu    sync.Mutex
	calls []string // "namespace/name" of the items for which it was called
}

func (a *testAction) Name() string { return a.name }

func (a *testAction) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return a.selector, a.refuses
}

func (a *testAction) Starts() versioning.Starts { return a.starts }

func (a *testAction) Execute(_ context.Context, item, backupJSON []byte) (*backupitemaction.Result, error) {
	var b velerov1.Backup
	if err := json.Unmarshal(backupJSON, &b); err != nil || b.Name != "b" {
		return nil, fmt.Errorf("unexpected backup %s: %w", backupJSON, err)
	}
	a.mu.Lock()
	a.calls = append(a.calls, identity(item))
	a.mu.Unlock()
	return a.execute(item)
}

func (a *testAction) Progress(context.Context, string, []byte) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, errors.New("not called yet")
}

func (a *testAction) Cancel(context.Context, string, []byte) error { return nil }

func identity(item []byte) string {
	var o struct {
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(item, &o); err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(o.Metadata.Namespace+"/"+o.Metadata.Name, "/")
}

// annotate sets an annotation as a plugin does, by decoding the whole object.
func annotate(item []byte, key, value string) []byte {
	var o map[string]any
	if err := json.Unmarshal(item, &o); err != nil {
		panic(err)
	}
	metadata, _ := o["metadata"].(map[string]any)
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
	}
	annotations[key] = value
	metadata["annotations"] = annotations
	changed, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return changed
}

// requesting returns an action for pods that requests additional items and sets annotations on the pod.
func requesting(annotations map[string]string, ids ...framework.ResourceIdentifier) *testAction {
	return &testAction{
		name: "example.com/requesting", selector: framework.ResourceSelector{IncludedResources: []string{"po"}},
		execute: func(item []byte) (*backupitemaction.Result, error) {
			for key, value := range annotations {
				item = annotate(item, key, value)
			}
			return &backupitemaction.Result{Item: item, AdditionalItems: ids}, nil
		},
	}
}

func id(group, resource, namespace, name string) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{Group: group, Resource: resource, Namespace: namespace, Name: name}
}

func only(namespaces ...string) *velerov1.Backup {
	return newBackup(func(s *velerov1.BackupSpec) { s.IncludedNamespaces = namespaces })
}

func TestActionsRunInOrderOnEachOthersResults(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	var order []string
	step := func(name string) *testAction {
		return &testAction{
			name: name, selector: framework.ResourceSelector{
				IncludedResources: []string{"configmaps"}, IncludedNamespaces: []string{"shop-*"}, LabelSelector: "app=web",
			},
			execute: func(item []byte) (*backupitemaction.Result, error) {
				if name == "example.com/second" && !strings.Contains(string(item), "example.com/first") {
					return nil, errors.New("not the result of the first")
				}
				order = append(order, name)
				return &backupitemaction.Result{Item: annotate(item, name, "was here")}, nil
			},
		}
	}
	first, second, csi := step("example.com/first"), step("example.com/second"), step("velero.io/csi-thing")
	b := take(t.Context(), t, deps,
		backup.Request{Backup: newBackup(nil), Actions: []backupitemaction.Action{first, second, csi}})
	require.Zero(t, b.Errors, b.Results)
	require.Equal(t, []string{"example.com/first", "example.com/second"}, order, "the CSI feature is off")
	require.Equal(t, []string{"shop-prod/settings"}, first.calls)
	require.Contains(t, b.objects["configmaps:shop-prod/settings"], `"example.com/second":"was here"`)
	require.NotContains(t, b.objects["configmaps:shop-test/settings"], "example.com")
}

func TestItemWithoutActionsKeepsItsBytes(t *testing.T) {
	t.Parallel()
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{Backup: only("shop-prod")})
	// A number that a float64 cannot hold survives.
	require.Contains(t, b.objects["widgets.example.com:shop-prod/round"], `"big":9007199254740993`)
	// Objects of built-in types get the type, which is missing in a list.
	require.True(t, strings.HasPrefix(b.objects["deployments.apps:shop-prod/web"],
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":`))
	require.Contains(t, slices.Collect(b.ResourceList.Of("apps/v1/Deployment")), "shop-prod/web")
	require.Equal(t, []string{"shop-prod"}, slices.Collect(b.ResourceList.Of("v1/Namespace")))
}

func TestItemErrorsAreRecordedAndTheBackupContinues(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	for name, test := range map[string]struct {
		execute func(item []byte) (*backupitemaction.Result, error)
		want    string
	}{
		"failing": {func([]byte) (*backupitemaction.Result, error) { return nil, errors.New("no luck") },
			" resource: /configmaps name: /settings message: /error backing up item error: /no luck"},
		"nil": {func([]byte) (*backupitemaction.Result, error) { return nil, nil }, "returned no item"},
		"empty item": {func([]byte) (*backupitemaction.Result, error) { return &backupitemaction.Result{}, nil },
			"returned no item"},
		"garbage": {func([]byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: []byte("garbage")}, nil
		}, "invalid JSON at byte 0"},
		"another object": {func(item []byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: []byte(strings.ReplaceAll(string(item), "settings", "others"))}, nil
		}, `returned object "others"`},
		"no kind": {func([]byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: []byte(`{"metadata":{"namespace":"shop-prod","name":"settings"}}`)}, nil
		}, "want an object with apiVersion and kind"},
		"unknown additional item": {func(item []byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: item,
				AdditionalItems: []framework.ResourceIdentifier{id("", "unicorns", "", "x")}}, nil
		}, "additional item unicorns/x requested by example.com/bad: unicorns is not a resource of this cluster"},
		"additional item without name": {func(item []byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: item,
				AdditionalItems: []framework.ResourceIdentifier{id("", "secrets", "shop-prod", "")}}, nil
		}, "its name is missing"},
		"additional item without namespace": {func(item []byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: item,
				AdditionalItems: []framework.ResourceIdentifier{id("", "secrets", "", "password")}}, nil
		}, "its namespace is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := &testAction{name: "example.com/bad", execute: test.execute, selector: framework.ResourceSelector{
				IncludedResources: []string{"configmaps"}, LabelSelector: "app=web",
			}}
			b := take(t.Context(), t, deps, backup.Request{Backup: only("shop-prod"), Actions: []backupitemaction.Action{bad}})
			require.Equal(t, 1, b.Errors)
			require.Len(t, b.Results.Errors.Namespaces["shop-prod"], 1)
			require.Contains(t, b.Results.Errors.Namespaces["shop-prod"][0], test.want)
			require.NotContains(t, b.objects, "configmaps:shop-prod/settings")
			require.Contains(t, b.objects, "configmaps:shop-prod/kept")
		})
	}
}

func TestActionWithoutAValidSelectorFailsTheBackup(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	for _, bad := range []*testAction{
		{name: "example.com/silent", refuses: errors.New("unknown")},
		{name: "example.com/odd", selector: framework.ResourceSelector{LabelSelector: "a=b=c"}},
	} {
		result, err := backup.Run(t.Context(), deps, backup.Request{
			Backup: newBackup(nil), Actions: []backupitemaction.Action{bad}, Log: discard(),
		}, &strings.Builder{})
		require.Error(t, err)
		require.NotNil(t, result)
	}
}

func TestOperationsOfActionsAreInTheResult(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	starter := &testAction{
		name: "example.com/starter", selector: framework.ResourceSelector{IncludedResources: []string{"secrets"},
			LabelSelector: "app"},
		execute: func(item []byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: item, OperationID: "op-1",
				PostOperationItems: []framework.ResourceIdentifier{id("", "pods", "shop-prod", "db-0")}}, nil
		},
	}
	b := take(t.Context(), t, deps, backup.Request{Backup: newBackup(nil), Actions: []backupitemaction.Action{starter}})
	require.Len(t, b.Operations, 1)
	op := b.Operations[0]
	require.False(t, op.Created.IsZero())
	require.Equal(t, operation.Operation{
		Action: "example.com/starter", ID: "op-1", Item: id("", "secrets", "shop-prod", "password"), Created: op.Created,
		PostOperationItems: []framework.ResourceIdentifier{id("", "pods", "shop-prod", "db-0")}, Status: operation.Status{
			Phase: operation.New,
		},
	}, op)
}

func TestOperationIsFollowedWhateverHappensToItsItem(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	for name, test := range map[string]struct {
		reply  func(item []byte) []byte
		errors int
	}{
		"garbage":  {func([]byte) []byte { return []byte("garbage") }, 1},
		"excluded": {func(item []byte) []byte { return annotate(item, "velero.io/skip-from-backup", "") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			starter := &testAction{
				name: "example.com/starter", starts: versioning.Keyed,
				selector: framework.ResourceSelector{IncludedResources: []string{"secrets"}, LabelSelector: "app"},
				execute: func(item []byte) (*backupitemaction.Result, error) {
					return &backupitemaction.Result{Item: test.reply(item), OperationID: "op-1"}, nil
				},
			}
			b := take(t.Context(), t, deps,
				backup.Request{Backup: only("shop-prod"), Actions: []backupitemaction.Action{starter}})
			require.Equal(t, test.errors, b.Errors)
			require.NotContains(t, b.objects, "secrets:shop-prod/password")
			require.Len(t, b.Operations, 1)
		})
	}
}

func TestOperationOfTwoItemsIsAnErrorOfTheSecond(t *testing.T) {
	t.Parallel()
	starter := &testAction{
		name: "example.com/starter", starts: versioning.Keyed, selector: framework.ResourceSelector{
			IncludedResources: []string{"secrets"},
		},
		execute: func(item []byte) (*backupitemaction.Result, error) {
			return &backupitemaction.Result{Item: item, OperationID: "op-1"}, nil
		},
	}
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{
		Backup: only("shop-prod", "bank-prod"), Actions: []backupitemaction.Action{starter},
	})
	require.Equal(t, 1, b.Errors)
	require.Len(t, b.Operations, 1)
	require.Contains(t, fmt.Sprint(b.Results.Errors.Namespaces), "returned operation op-1, which it has started for ")
}

func TestAdditionalItemsAreBackedUpOnceBeforeTheItem(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	chain := requesting(map[string]string{"backup.velero.io/must-include-additional-items": "false"},
		id("", "serviceaccounts", "shop-prod", "robot"), id("", "serviceaccounts", "shop-prod", "robot"),
		id("", "pods", "shop-prod", "db-0"), id("", "persistentvolumes", "ignored", "fixture-pv"),
		id("", "secrets", "shop-prod", "missing"))
	b := take(t.Context(), t, deps, backup.Request{Backup: only("shop-prod"), Actions: []backupitemaction.Action{chain}})
	require.Zero(t, b.Errors, b.Results)
	require.Equal(t, []string{"shop-prod/db-0"}, chain.calls)
	at := func(path string) int {
		for i, entry := range b.entries {
			if entry == path {
				return i
			}
		}
		require.Fail(t, "missing", path)
		return -1
	}
	require.Less(t, at("resources/serviceaccounts/namespaces/shop-prod/robot.json"),
		at("resources/pods/namespaces/shop-prod/db-0.json"))
	require.Less(t, at("resources/persistentvolumes/cluster/fixture-pv.json"),
		at("resources/pods/namespaces/shop-prod/db-0.json"))
	require.NotContains(t, b.objects["pods:shop-prod/db-0"], "must-include")
	require.Equal(t, []string{" resource: /secrets name: /missing message: /additional item does not exist, it is left " +
		"out"},
		b.Results.Warnings.Namespaces["shop-prod"])
}
