package backup_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// described holds the items of a manifest, in order, by "resource:namespace/name".
type described struct {
	order   []string
	items   map[string]*manifestwriter.Item
	objects map[string]string
}

func (d *described) Add(item *manifestwriter.Item, object []byte) {
	if d.items == nil {
		d.items, d.objects = map[string]*manifestwriter.Item{}, map[string]string{}
	}
	name := item.Resource
	if item.Group != "" {
		name += "." + item.Group
	}
	name += ":" + strings.TrimPrefix(item.Namespace+"/"+item.Name, "/")
	d.order = append(d.order, name)
	d.items[name], d.objects[name] = item, string(object)
}

// TestManifestGetsItemsAsTheyAreArchived compares the manifest with the archive.
func TestManifestGetsItemsAsTheyAreArchived(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	deps.Workers, deps.References = 4, reference.BuiltIn()
	marking := requesting(map[string]string{"marked": "yes", "backup.velero.io/must-include-additional-items": "true"})
	var got described
	b := take(t.Context(), t, deps, backup.Request{Backup: newBackup(nil), Actions: []backupitemaction.Action{marking},
		Manifest: &got})
	require.Zero(t, b.Errors, b.Results)
	require.Equal(t, b.objects, got.objects)
	require.Len(t, got.order, len(b.objects))
	var archived []string
	for _, path := range b.entries {
		if parts := strings.Split(strings.TrimSuffix(path, ".json"), "/"); parts[0] == "resources" &&
			!strings.HasSuffix(parts[2], "-preferredversion") {
			archived = append(archived, parts[1]+":"+strings.Join(parts[3:], "/"))
		}
	}
	require.Equal(t, archived, got.order, "the order of the archive")
	for name, object := range b.objects {
		var want struct {
			Kind     string
			Metadata struct {
				UID                 string
				Labels, Annotations map[string]string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(object), &want))
		item := got.items[name]
		require.Equal(t, want.Kind, item.Kind, name)
		require.Equal(t, want.Metadata.UID, item.UID, name)
		require.Equal(t, len(want.Metadata.Labels), len(item.Labels), name)
		require.Equal(t, len(want.Metadata.Annotations), len(item.Annotations), name)
		for key, value := range want.Metadata.Annotations {
			require.Equal(t, value, item.Annotations[key], name)
		}
	}
	pod := got.items["pods:shop-prod/db-0"]
	require.Equal(t, map[string]string{"marked": "yes"}, pod.Annotations,
		"as the action has changed it, without what it says to the server")
	round := got.items["widgets.example.com:shop-prod/round"]
	require.True(t, slices.ContainsFunc(round.References, func(e manifest.Edge) bool {
		return e.Type == manifest.Reference && e.To.Kind == "CustomResourceDefinition" && e.To.Name == "widgets.example.com"
	}), "%v", round.References)
}

func TestManifestKnowsHowItemsCameIn(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	deps.References = reference.BuiltIn()
	settings, lamp := id("", "configmaps", "bank-prod", "settings"), id("example.com", "gadgets", "ignored", "lamp")
	requests := requesting(map[string]string{"backup.velero.io/must-include-additional-items": "true"}, settings, lamp,
		settings)
	again := requesting(nil, lamp)
	again.name = "example.com/again"
	relates := &relating{name: "example.com/relating",
		selector: framework.ResourceSelector{IncludedResources: []string{"pods"}},
		related:  map[string][]framework.ResourceIdentifier{"shop-prod/db-0": {id("", "secrets", "shop-prod", "password")}}}
	var got described
	b := take(t.Context(), t, deps, backup.Request{
		Backup: newBackup(func(s *velerov1.BackupSpec) {
			s.IncludedNamespaces = []string{"shop-prod"}
			s.OrderedResources = map[string]string{"serviceaccounts": "shop-prod/robot"}
		}),
		Actions: []backupitemaction.Action{requests, again}, BlockActions: []itemblockaction.Action{relates}, Manifest: &got,
	})
	require.Zero(t, b.Errors, b.Results)

	pod := manifest.Ref{Resource: "pods", Kind: "Pod", Namespace: "shop-prod", Name: "db-0",
		UID: got.items["pods:shop-prod/db-0"].UID}
	for name, want := range map[string]manifest.Inclusion{
		"pods:shop-prod/db-0":             {By: manifest.ByFilters},
		"configmaps:shop-prod/settings":   {By: manifest.ByFilters},
		"serviceaccounts:shop-prod/robot": {By: manifest.ByOrder},
		"configmaps:bank-prod/settings":   {By: manifest.ByAction, Plugin: requests.name, Of: &pod},
		"gadgets.example.com:lamp":        {By: manifest.ByAction, Plugin: requests.name, Of: &pod},
		"secrets:shop-prod/password":      {By: manifest.ByBlock, Plugin: relates.name, Of: &pod},
		"namespaces:shop-prod":            {By: manifest.ByContent},
		"customresourcedefinitions.apiextensions.k8s.io:gadgets.example.com": {By: manifest.ByContent},
	} {
		require.Contains(t, got.items, name)
		require.Equal(t, want, got.items[name].Included, name)
	}
	lamp.Namespace = ""
	require.Equal(t, []framework.ResourceIdentifier{settings, lamp}, got.items["pods:shop-prod/db-0"].Related)
	var edges []manifest.Edge
	for _, edge := range got.items["pods:shop-prod/db-0"].References {
		if edge.Type == manifest.Action {
			edges = append(edges, edge)
		}
	}
	toSettings := manifest.Ref{Resource: "configmaps", Kind: "ConfigMap", Namespace: "bank-prod", Name: "settings"}
	toLamp := manifest.Ref{Group: "example.com", Resource: "gadgets", Kind: "Gadget", Name: "lamp"}
	require.Equal(t, []manifest.Edge{
		{Type: manifest.Action, To: toSettings, Plugin: requests.name}, {Type: manifest.Action, To: toLamp,
			Plugin: requests.name},
		{Type: manifest.Action, To: toLamp, Plugin: again.name},
	}, edges)
}

// TestItemThatIsNotArchivedIsNotDescribed has an action that excludes items.
func TestItemThatIsNotArchivedIsNotDescribed(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	deps.References = reference.BuiltIn()
	var got described
	skips := requesting(map[string]string{"velero.io/skip-from-backup": ""})
	b := take(t.Context(), t, deps, backup.Request{Backup: only("shop-prod"), Actions: []backupitemaction.Action{skips},
		Manifest: &got})
	require.NotContains(t, got.items, "pods:shop-prod/db-0")
	require.Len(t, got.items, len(b.objects))
}
