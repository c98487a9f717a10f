package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
)

// onConfigMaps is an action for config maps. It calls the function that belongs to the name of the config map.
type onConfigMaps map[string]func(raw []byte) (*backupitemaction.Result, error)

func (onConfigMaps) Name() string { return "example.com/on-config-maps" }

func (onConfigMaps) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (onConfigMaps) Starts() versioning.Starts { return versioning.NoOperations }

func (on onConfigMaps) Execute(_ context.Context, raw, _ []byte) (*backupitemaction.Result, error) {
	for name, do := range on {
		if string(raw) == configMap(name) {
			return do(raw)
		}
	}
	return &backupitemaction.Result{Item: raw}, nil
}

func (onConfigMaps) AtOnce() int { return 0 }

func (onConfigMaps) ProgressOfMany(
	context.Context, []string, []byte,
) (map[string]framework.OperationProgress, error) {
	return nil, nil
}

func (onConfigMaps) Progress(context.Context, string, []byte) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, framework.ErrNotFound
}

func (onConfigMaps) Cancel(context.Context, string, []byte) error { return nil }

// relatesNothing is an item block action. With it, an object is in one block only.
type relatesNothing struct{}

func (relatesNothing) Name() string { return "example.com/relates-nothing" }

func (relatesNothing) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (relatesNothing) GetRelatedItems(context.Context, []byte, []byte) ([]framework.ResourceIdentifier, error) {
	return nil, nil
}

// noSpace is an archive that cannot be written.
type noSpace struct{}

func (noSpace) Item(schema.GroupResource, string, bool, string, string, []byte) error {
	return errors.New("no space left on device")
}

func configMap(name string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"shop"}}`
}

// cluster returns the resources that the API server of these tests serves.
func cluster() *discovery.Snapshot {
	verbs := metav1.Verbs{"create", "delete", "get", "list", "watch"}
	group := func(name string) *metav1.APIGroup {
		version := metav1.GroupVersion{Group: name, Version: "v1"}.String()
		return &metav1.APIGroup{
			Name:             name,
			PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: version, Version: "v1"},
		}
	}
	return discovery.NewSnapshot([]*metav1.APIGroup{group(""), group(snapshotsGroup)}, []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: verbs},
			{Name: "persistentvolumes", Kind: "PersistentVolume", Verbs: verbs},
		}},
		{GroupVersion: snapshotsGroup + "/v1", APIResources: []metav1.APIResource{
			{Name: "volumesnapshotcontents", Kind: "VolumeSnapshotContent", Verbs: verbs},
		}},
	})
}

// newItems returns the engine of a backup of namespace shop, which is ready for items.
func newItems(t testing.TB, on onConfigMaps, progress func(done, total int)) *engine {
	t.Helper()
	e := newEngine(Deps{}, Request{
		Backup: &velerov1.Backup{}, Log: hclog.NewNullLogger(), Progress: progress,
		Actions: []backupitemaction.Action{on},
	})
	e.sel, e.archive = &selection{snapshot: cluster()}, nowhere{}
	var err error
	e.sel.namespaces, err = filter.NewNamespaces([]string{"shop"}, nil, []string{"shop", "bank"})
	require.NoError(t, err)
	e.sel.resources, _, err = filter.NewResources(filter.ResourceLists{}, e.sel.namespaces, e.sel.snapshot)
	require.NoError(t, err)
	e.actions, err = itemaction.NewSet(t.Context(), e.req.Actions, false, nil, e.log)
	require.NoError(t, err)
	require.NoError(t, e.actions.Resolve(e.sel.snapshot))
	e.blockActions = &itemaction.Set[itemblockaction.Action]{}
	return e
}

func (e *engine) resource(t testing.TB, name string) discovery.Resource {
	t.Helper()
	gr, ok := e.sel.snapshot.Resolve(name)
	require.True(t, ok, name)
	resource, ok := e.sel.snapshot.ByGroupResource(gr)
	require.True(t, ok, name)
	return resource
}

func TestItemsThatAreNotStoredAreNoLongerExpected(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/shop/configmaps/additional" {
			_, _ = io.WriteString(w, configMap("additional"))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	t.Cleanup(server.Close)

	type do = func(raw []byte) (*backupitemaction.Result, error)
	keeps := func(raw []byte) (*backupitemaction.Result, error) { return &backupitemaction.Result{Item: raw}, nil }
	fails := func([]byte) (*backupitemaction.Result, error) { return nil, errors.New("no answer") }
	panics := func([]byte) (*backupitemaction.Result, error) { panic("a bug") }
	excludes := func(raw []byte) (*backupitemaction.Result, error) {
		const mark = `{"annotations":{"` + skipAnnotation + `":"true"},`
		return &backupitemaction.Result{Item: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":%s%s`,
			mark, string(raw)[len(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{`):])}, nil
	}
	replaces := func([]byte) (*backupitemaction.Result, error) {
		return &backupitemaction.Result{Item: []byte(configMap("other"))}, nil
	}
	requests := func(namespace, name string) do {
		return func(raw []byte) (*backupitemaction.Result, error) {
			id := framework.ResourceIdentifier{Resource: "configmaps", Namespace: namespace, Name: name}
			return &backupitemaction.Result{Item: raw, AdditionalItems: []framework.ResourceIdentifier{id}}, nil
		}
	}

	type count struct{ done, total int }
	for name, test := range map[string]struct {
		resource string   // of the listed objects; configmaps if it is empty
		listed   []string // object "listed", if it is nil
		on       onConfigMaps
		archive  itemWriter
		assigned bool    // the listed object is in another block
		want     []count // after each change
		kept     bool    // whether the last object is in the backup
		errors   int
		ends     string // the error that ends the backup
	}{
		"stored": {want: []count{{0, 1}, {1, 1}}, kept: true},
		"excluded by its label": {
			listed: []string{`{"metadata":{"name":"a","namespace":"shop","labels":{"` + excludeLabel + `":"true"}}}`},
			want:   []count{{0, 1}, {0, 0}},
		},
		"no JSON":        {listed: []string{`{"metadata":`}, want: []count{{0, 1}, {0, 0}}, errors: 1},
		"without a name": {listed: []string{`{"metadata":{}}`}, want: []count{{0, 1}, {0, 0}}, errors: 1},
		"listed twice": {
			listed: []string{configMap("a"), configMap("a")},
			want:   []count{{0, 2}, {1, 2}, {1, 1}}, kept: true,
		},
		"in another block": {assigned: true, want: []count{{0, 1}, {0, 0}}, kept: true},
		"action fails":     {on: onConfigMaps{"listed": fails}, want: []count{{0, 1}, {0, 0}}, errors: 1},
		"action panics":    {on: onConfigMaps{"listed": panics}, want: []count{{0, 1}, {0, 0}}, errors: 1},
		"action replaces":  {on: onConfigMaps{"listed": replaces}, want: []count{{0, 1}, {0, 0}}, errors: 1},
		"action excludes":  {on: onConfigMaps{"listed": excludes}, want: []count{{0, 1}, {0, 0}}},
		"listed again after an action excluded it": {
			listed: []string{configMap("listed"), configMap("listed")}, on: onConfigMaps{"listed": excludes},
			want: []count{{0, 2}, {0, 1}, {0, 0}},
		},
		"listed again after an action failed": {
			listed: []string{configMap("listed"), configMap("listed")}, on: onConfigMaps{"listed": fails},
			want: []count{{0, 2}, {0, 1}, {0, 0}}, kept: true, errors: 1,
		},
		"additional item": {
			on:   onConfigMaps{"listed": requests("shop", "additional")},
			want: []count{{0, 1}, {0, 2}, {1, 2}, {2, 2}}, kept: true,
		},
		"additional item requests the first": {
			on: onConfigMaps{
				"listed": requests("shop", "additional"), "additional": requests("shop", "listed"),
			},
			want: []count{{0, 1}, {0, 2}, {1, 2}, {2, 2}}, kept: true,
		},
		"additional item is of another namespace": {
			on: onConfigMaps{"listed": requests("bank", "additional")}, want: []count{{0, 1}, {1, 1}}, kept: true,
		},
		"additional item does not exist": {
			on: onConfigMaps{"listed": requests("shop", "missing")}, want: []count{{0, 1}, {1, 1}}, kept: true,
		},
		"action excludes the additional item": {
			on:   onConfigMaps{"listed": requests("shop", "additional"), "additional": excludes},
			want: []count{{0, 1}, {0, 2}, {0, 1}, {1, 1}}, kept: true,
		},
		"action fails for the additional item": {
			on:   onConfigMaps{"listed": requests("shop", "additional"), "additional": fails},
			want: []count{{0, 1}, {0, 2}, {0, 1}, {0, 0}}, errors: 1,
		},
		"action panics for the additional item": {
			on:   onConfigMaps{"listed": requests("shop", "additional"), "additional": panics},
			want: []count{{0, 1}, {0, 2}, {0, 1}, {0, 0}}, errors: 1,
		},
		"action keeps the additional item": {
			on:   onConfigMaps{"listed": requests("shop", "additional"), "additional": keeps},
			want: []count{{0, 1}, {0, 2}, {1, 2}, {2, 2}}, kept: true,
		},
		"volume cannot be read": {
			resource: "persistentvolumes", listed: []string{`{"metadata":{"name":"a"},"spec":1}`},
			want: []count{{0, 1}, {0, 0}}, errors: 1,
		},
		"content of a snapshot cannot be read": {
			resource: "volumesnapshotcontents." + snapshotsGroup, listed: []string{`{"metadata":{"name":"a"},"spec":1}`},
			want: []count{{0, 1}, {0, 0}}, errors: 1,
		},
		"archive cannot be written": {
			archive: noSpace{}, want: []count{{0, 1}, {0, 0}}, ends: "no space left on device",
		},
		"archive cannot be written for the additional item": {
			on: onConfigMaps{"listed": requests("shop", "additional")}, archive: noSpace{},
			want: []count{{0, 1}, {0, 2}, {0, 1}, {0, 0}}, ends: "no space left on device",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var counts []count
			e := newItems(t, test.on, func(done, total int) { counts = append(counts, count{done, total}) })
			client, err := kubeapi.New(&rest.Config{Host: server.URL, QPS: -1}, e.log, 0)
			require.NoError(t, err)
			e.client = client
			if test.archive != nil {
				e.archive = test.archive
			}
			if test.resource == "" {
				test.resource = "configmaps"
			}
			if test.listed == nil {
				test.listed = []string{configMap("listed")}
			}
			resource := e.resource(t, test.resource)
			if test.assigned {
				e.blockActions, err = itemaction.NewSet(t.Context(), []itemblockaction.Action{relatesNothing{}}, false, nil, e.log)
				require.NoError(t, err)
				e.seen.assign(e.seen.keyOf(resource, "shop", "listed"))
			}

			e.record.expect(len(test.listed))
			var kept bool
			for _, raw := range test.listed {
				kept, err = e.object(t.Context(), object{resource: resource, raw: []byte(raw), listed: true})
			}
			if test.ends == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.ends)
			}
			require.Equal(t, test.kept, kept)
			require.Equal(t, test.want, counts)
			require.Equal(t, test.errors, e.record.result().Errors, e.record.results.Results())
		})
	}
}

// BenchmarkItem backs up one config map of a list, without an archive.
func BenchmarkItem(b *testing.B) {
	id := framework.ResourceIdentifier{Resource: "configmaps", Namespace: "shop", Name: "additional"}
	requests := func(raw []byte) (*backupitemaction.Result, error) {
		return &backupitemaction.Result{Item: raw, AdditionalItems: []framework.ResourceIdentifier{id}}, nil
	}
	for name, on := range map[string]onConfigMaps{
		"alone": nil, "additional": {"listed": requests},
	} {
		for _, action := range []bool{false, true} {
			if !action && on != nil {
				continue
			}
			b.Run(fmt.Sprintf("%s/action=%t", name, action), func(b *testing.B) {
				e := newItems(b, on, nil)
				if !action {
					e.actions = &itemaction.Set[backupitemaction.Action]{}
				}
				resource := e.resource(b, "configmaps")
				listed, additional := e.seen.keyOf(resource, "shop", "listed"), e.seen.keyOf(resource, "shop", "additional")
				together := &block{objects: []object{
					{resource: resource, raw: []byte(configMap("additional")), assigned: true, key: additional},
				}}
				o := object{
					resource: resource, raw: []byte(`{"metadata":{"name":"listed","namespace":"shop"}}`), listed: true,
					block: together,
				}
				b.ReportAllocs()
				for b.Loop() {
					e.record.expect(1)
					if kept, err := e.object(b.Context(), o); !kept || err != nil {
						b.Fatal(err)
					}
					e.seen.remove(listed)
					e.seen.remove(additional)
				}
			})
		}
	}
}
