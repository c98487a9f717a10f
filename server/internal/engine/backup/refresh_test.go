package backup_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// marking returns an action for config maps that sets an annotation and returns the result of reply.
func marking(starts versioning.Starts, reply func(name string, r *backupitemaction.Result) error) *testAction {
	return &testAction{
		name: "example.com/marking", starts: starts, selector: framework.ResourceSelector{
			IncludedResources: []string{"configmaps"},
		},
		execute: func(item []byte) (*backupitemaction.Result, error) {
			r := &backupitemaction.Result{Item: annotate(item, "marked", "yes")}
			return r, reply(identity(item), r)
		},
	}
}

func TestPostOperationItemsAreBackedUpAgain(t *testing.T) {
	t.Parallel()
	const ns = "refreshed"
	config := fixtureWorld(t)
	deps := depsFor(t, config)
	object := func(name, value string) fixtureObject {
		return fixtureObject{"configmaps", "v1", "ConfigMap", ns, name, nil, `"data":{"k":"` + value + `"}`}
	}
	create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", ns, nil, ""})
	for _, name := range []string{"kept", "changed", "gone", "failing", "starting", "skipped", "leaving"} {
		create(t.Context(), t, config, object(name, "before"))
	}
	var archive bytes.Buffer
	b := only(ns)
	result, err := backup.Run(t.Context(), deps, backup.Request{Backup: b, Log: discard()}, &archive)
	require.NoError(t, err)
	before := readBackup(t, result, archive.Bytes())

	// Changes while the operations are in progress.
	for _, name := range []string{"kept", "changed", "failing", "starting", "skipped", "leaving"} {
		_, err := resourceClient(t, config, object(name, "")).Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"data":{"k":"after"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	remove(t.Context(), t, config, object("gone", ""))
	remove(t.Context(), t, config, object("leaving", "")) // its finalizer prevents the deletion
	create(t.Context(), t, config, object("new", "after"))
	create(t.Context(), t, config, fixtureObject{"secrets", "v1", "Secret", ns, "extra",
		labelSet{"velero.io/exclude-from-backup": "true"}, ""})

	posts := func(names ...string) (ids []framework.ResourceIdentifier) {
		for _, name := range names {
			ids = append(ids, id("", "configmaps", ns, name))
		}
		return ids
	}
	operations := []operation.Operation{
		{Action: "a/b", ID: "op-1", Item: id("", "configmaps", ns, "kept"),
			PostOperationItems: posts("changed", "gone", "failing", "starting")},
		{Action: "a/b", ID: "op-2", Item: id("", "configmaps", ns, "kept"),
			PostOperationItems: append(posts("changed", "new", "skipped", "leaving"), id("", "unicorns", "", "x"))},
		{Action: "a/b", ID: "op-3", Item: id("", "configmaps", ns, "kept")},
	}
	action := marking(versioning.Unkeyed, func(name string, r *backupitemaction.Result) error {
		switch name {
		case ns + "/failing":
			return errors.New("no luck")
		case ns + "/starting":
			r.OperationID = "op-late"
		case ns + "/skipped":
			r.Item = annotate(r.Item, "velero.io/skip-from-backup", "")
		case ns + "/new":
			r.AdditionalItems = []framework.ResourceIdentifier{id("", "secrets", ns, "extra")}
		}
		return nil
	})
	b.Status.Phase = velerov1.BackupPhaseFinalizing
	dir := t.TempDir()
	r, err := backup.Refresh(t.Context(), deps, backup.Request{Backup: b, Actions: []backupitemaction.Action{action},
		Log: discard()}, operations, dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.True(t, r.Changed())
	require.Equal(t, 3, r.Result.Items)
	require.Empty(t, r.Added)
	require.ElementsMatch(t, []string{
		" resource: /configmaps name: /failing message: /error backing up item error: /no luck",
		" resource: /configmaps name: /starting message: /error backing up item error: /example.com/marking started " +
			"operation op-late: " +
			"the operations of the run have ended, no other is waited for",
	}, r.Result.Results.Errors.Namespaces[ns])
	require.Equal(t, 3, r.Result.Errors, "and the unicorn: %v", r.Result.Results.Errors)
	require.Equal(t, []string{" resource: /configmaps name: /gone message: " +
		"/post-operation item does not exist any more, the backup keeps it as it was, if at all"},
		r.Result.Results.Warnings.Namespaces[ns])
	require.Empty(t, r.Result.Operations, "the journal has it")

	source := archive.Bytes()
	for range 2 { // the second time from the result of the first
		var rewritten bytes.Buffer
		require.NoError(t, r.Rewrite(t.Context(), bytes.NewReader(source), &rewritten))
		require.Equal(t, map[string][]string{"v1/ConfigMap": {ns + "/new"}, "v1/Secret": {ns + "/extra"}},
			r.Added)
		after := readBackup(t, &backup.Result{Items: len(before.objects) + 2}, rewritten.Bytes())
		require.Equal(t, before.entries, after.entries[:len(before.entries)], "the order stays")
		for object, body := range before.objects {
			if object == "configmaps:"+ns+"/changed" {
				continue
			}
			require.Equal(t, body, after.objects[object], object)
		}
		for _, name := range []string{"changed", "new"} {
			require.Contains(t, after.objects["configmaps:"+ns+"/"+name], `"k":"after"`)
			require.Contains(t, after.objects["configmaps:"+ns+"/"+name], `"marked":"yes"`)
		}
		source = rewritten.Bytes()
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files, "its file has no name")
}

func TestActionsWithKeysAreCalledAgainForTheirOperationsOnly(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	own, other := id("", "configmaps", "shop-prod", "settings"), id("", "configmaps", "shop-prod", "kept")
	for name, test := range map[string]struct{ answer, want string }{
		"the operation":     {"op-1", ""},
		"none":              {"", ""},
		"another operation": {"op-2", "started operation op-2: the operations of the run have ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action := marking(versioning.Keyed, func(_ string, r *backupitemaction.Result) error {
				r.OperationID = test.answer
				return nil
			})
			r, err := backup.Refresh(t.Context(), deps,
				backup.Request{Backup: only("shop-prod"), Actions: []backupitemaction.Action{action}, Log: discard()},
				[]operation.Operation{{Action: action.name, ID: "op-1", Item: own,
					PostOperationItems: []framework.ResourceIdentifier{own, other}}}, t.TempDir())
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Close()) }()
			require.Equal(t, []string{"shop-prod/settings"}, action.calls)
			if test.want == "" {
				require.Zero(t, r.Result.Errors, r.Result.Results)
				require.Equal(t, 2, r.Result.Items)
				return
			}
			require.Equal(t, 1, r.Result.Items)
			require.Contains(t, strings.Join(r.Result.Results.Errors.Namespaces["shop-prod"], ""), test.want)
		})
	}
}

func TestNothingIsRefreshedWithoutPostOperationItems(t *testing.T) {
	t.Parallel()
	r, err := backup.Refresh(t.Context(), depsFor(t, fixtureWorld(t)),
		backup.Request{Backup: only("shop-prod"), Log: discard()},
		[]operation.Operation{{Action: "a/b", ID: "op-1", Item: id("", "configmaps", "shop-prod", "settings")}}, t.TempDir())
	require.NoError(t, err)
	require.False(t, r.Changed())
	require.NoError(t, r.Close())
}

func TestRefreshingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	action := marking(versioning.Unkeyed, func(string, *backupitemaction.Result) error {
		cancel()
		return ctx.Err()
	})
	_, err := backup.Refresh(ctx, depsFor(t, fixtureWorld(t)),
		backup.Request{Backup: only("shop-prod"), Actions: []backupitemaction.Action{action}, Log: discard()},
		[]operation.Operation{{Action: "a/b", ID: "op-1",
			PostOperationItems: []framework.ResourceIdentifier{id("", "configmaps", "shop-prod", "settings")}}}, t.TempDir())
	require.ErrorIs(t, err, context.Canceled)
}
