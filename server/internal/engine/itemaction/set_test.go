package itemaction_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

type fakeAction struct {
	name     string
	selector framework.ResourceSelector
	err      error
}

func (a fakeAction) Name() string { return a.name }

func (a fakeAction) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return a.selector, a.err
}

// snapshot returns a cluster that serves the named resources of the core group.
func snapshot(plurals ...string) *discovery.Snapshot {
	list := &metav1.APIResourceList{GroupVersion: "v1"}
	for _, plural := range plurals {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: plural, ShortNames: []string{plural[:2]}, Kind: plural, Namespaced: true,
			Verbs: metav1.Verbs{"list", "create", "get", "delete"},
		})
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: "v1", Version: "v1"}
	group := &metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
	return discovery.NewSnapshot([]*metav1.APIGroup{group}, []*metav1.APIResourceList{list})
}

func names(set *itemaction.Set[fakeAction], resource, namespace string, labels map[string]string) []string {
	var found []string
	gr := schema.GroupResource{Resource: resource}
	for a := range set.For(gr, namespace, func() map[string]string { return labels }) {
		found = append(found, a.name)
	}
	return found
}

func TestSetSelectsActionsInOrder(t *testing.T) {
	t.Parallel()
	actions := []fakeAction{
		{name: "z.io/all"},
		{name: "velero.io/csi-pvc"},
		{name: "a.io/pods", selector: framework.ResourceSelector{IncludedResources: []string{"po"}}},
		{name: "b.io/shop", selector: framework.ResourceSelector{IncludedNamespaces: []string{"shop-*"},
			LabelSelector: "app=web"}},
	}
	web := map[string]string{"app": "web"}
	for name, tt := range map[string]struct {
		csi                 bool
		resource, namespace string
		labels              map[string]string
		want                []string
	}{
		"all apply, one needs a feature": {false, "pods", "shop-1", web, []string{"z.io/all", "a.io/pods", "b.io/shop"}},
		"with the feature": {true, "pods", "shop-1", web, []string{"z.io/all", "velero.io/csi-pvc", "a.io/pods",
			"b.io/shop"}},
		"other labels":   {false, "pods", "shop-1", nil, []string{"z.io/all", "a.io/pods"}},
		"other resource": {false, "secrets", "bank", web, []string{"z.io/all"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := itemaction.NewSet(t.Context(), actions, tt.csi, pluginhost.IsRoleOfVelero, hclog.NewNullLogger())
			require.NoError(t, err)
			require.NoError(t, set.Resolve(snapshot("pods", "secrets")))
			require.Equal(t, tt.want, names(set, tt.resource, tt.namespace, tt.labels))
			var maybe []string
			for a := range set.Each(schema.GroupResource{Resource: tt.resource}) {
				maybe = append(maybe, a.name)
			}
			require.Subset(t, maybe, tt.want)
			require.Equal(t, tt.resource == "pods", slices.Contains(maybe, "a.io/pods"))
			require.True(t, set.Concerns(schema.GroupResource{Resource: tt.resource}))
		})
	}
}

func TestSetUsesTheLabelsThatActionsBeforeHaveSet(t *testing.T) {
	t.Parallel()
	set, err := itemaction.NewSet(t.Context(), []fakeAction{
		{name: "first"}, {name: "second", selector: framework.ResourceSelector{LabelSelector: "seen"}}, {name: "third"},
	}, false, nil, hclog.NewNullLogger())
	require.NoError(t, err)
	require.NoError(t, set.Resolve(snapshot("pods")))
	var called []string
	labels := map[string]string{}
	for a := range set.For(schema.GroupResource{Resource: "pods"}, "a", func() map[string]string { return labels }) {
		called = append(called, a.name)
		if a.name == "second" {
			break
		}
		labels = map[string]string{"seen": "yes"}
	}
	require.Equal(t, []string{"first", "second"}, called)
}

func TestSetIsResolvedAgainWhenTheClusterServesMore(t *testing.T) {
	t.Parallel()
	set, err := itemaction.NewSet(t.Context(), []fakeAction{
		{name: "widgets", selector: framework.ResourceSelector{IncludedResources: []string{"wi"}}},
	}, false, nil, hclog.NewNullLogger())
	require.NoError(t, err)
	require.NoError(t, set.Resolve(snapshot("pods")))
	require.Empty(t, names(set, "widgets", "a", nil))
	require.NoError(t, set.Resolve(snapshot("pods", "widgets")))
	require.Equal(t, []string{"widgets"}, names(set, "widgets", "a", nil))
}

func TestSetRefusesActionsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	silent := errors.New("plugin exited")
	_, err := itemaction.NewSet(t.Context(), []fakeAction{{name: "a"}, {name: "b", err: silent}}, false, nil,
		hclog.NewNullLogger())
	require.ErrorIs(t, err, silent)
	set, err := itemaction.NewSet(t.Context(),
		[]fakeAction{{name: "odd", selector: framework.ResourceSelector{LabelSelector: "a=b=c"}}}, false, nil,
		hclog.NewNullLogger())
	require.NoError(t, err)
	require.ErrorContains(t, set.Resolve(snapshot("pods")), "what odd applies to")
}

func TestCheckItem(t *testing.T) {
	t.Parallel()
	asked := item.Meta{APIVersion: "v1beta1", Kind: "Pod", Namespace: "shop", Name: "web"}
	for name, tt := range map[string]struct{ returned, want string }{
		"the item": {`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web","labels":{"a":"b"}}}`, ""},
		"nothing":  {``, "example.io/x returned no item"},
		"no JSON":  {`garbage`, "item returned by example.io/x: invalid JSON"},
		"no type":  {`{"metadata":{"namespace":"shop","name":"web"}}`, "want an object with apiVersion and kind"},
		"no kind": {`{"apiVersion":"v1","metadata":{"namespace":"shop","name":"web"}}`,
			"want an object with apiVersion and kind"},
		"another kind": {`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"web"}}`,
			`returned a Secret, want a Pod`},
		"another group": {`{"apiVersion":"apps/v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}`,
			`returned a Pod.apps, want a Pod`},
		"another name": {`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"db"}}`,
			`returned object "db" of namespace "shop"`},
		"another namespace": {`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"bank","name":"web"}}`,
			`returned object "web" of namespace "bank"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meta, err := itemaction.CheckItem("example.io/x", asked, []byte(tt.returned))
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, map[string]string{"a": "b"}, meta.Labels)
		})
	}
}
