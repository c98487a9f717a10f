package discovery

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
)

var all = metav1.Verbs{"create", "delete", "get", "list", "watch"}

// served returns the discovery documents of a server, in the server's order.
func served() ([]*metav1.APIGroup, []*metav1.APIResourceList) {
	group := func(name, preferred string) *metav1.APIGroup {
		return &metav1.APIGroup{Name: name, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: name + "/" +
			preferred, Version: preferred}}
	}
	return []*metav1.APIGroup{group("", "v1"), group("extensions", "v1beta1"), group("apps", "v1"),
			group("autoscaling", "v2"), group("events.k8s.io", "v1")},
		[]*metav1.APIResourceList{
			{GroupVersion: "v1", APIResources: []metav1.APIResource{
				{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
				{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", ShortNames: []string{"cm"}, Namespaced: true,
					Verbs: all},
				{Name: "events", SingularName: "event", Kind: "Event", ShortNames: []string{"ev"}, Namespaced: true, Verbs: all},
				{Name: "persistentvolumes", SingularName: "persistentvolume", Kind: "PersistentVolume", ShortNames: []string{"pv"},
					Verbs: all},
				{Name: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", ShortNames: []string{"pvc"}, Namespaced: true,
					Verbs: all},
				{Name: "pods", Kind: "Pod", ShortNames: []string{"po"}, Namespaced: true, Verbs: all},
				{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: all},
			}},
			{GroupVersion: "extensions/v1beta1", APIResources: []metav1.APIResource{
				{Name: "deployments", SingularName: "deployment", Kind: "Deployment", ShortNames: []string{"deploy"},
					Namespaced: true, Verbs: all},
			}},
			{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
				{Name: "deployments", SingularName: "deployment", Kind: "Deployment", ShortNames: []string{"deploy"},
					Namespaced: true, Verbs: all},
			}},
			{GroupVersion: "autoscaling/v1", APIResources: []metav1.APIResource{
				{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, Verbs: all},
				{Name: "olds", Kind: "Old", Namespaced: true, Verbs: all},
			}},
			{GroupVersion: "autoscaling/v2", APIResources: []metav1.APIResource{
				{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, Verbs: all},
			}},
			{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{
				{Name: "events", Kind: "Event", Namespaced: true, Verbs: all},
			}},
		}
}

func TestSnapshotHoldsResourcesInBackupOrder(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range NewSnapshot(served()).Resources() {
		got = append(got, r.GroupVersionResource().String())
	}
	require.Equal(t, []string{
		"/v1, Resource=pods", "/v1, Resource=persistentvolumeclaims", "/v1, Resource=persistentvolumes",
		"/v1, Resource=configmaps", "/v1, Resource=events",
		"apps/v1, Resource=deployments",
		"autoscaling/v2, Resource=horizontalpodautoscalers", "autoscaling/v1, Resource=olds",
		"events.k8s.io/v1, Resource=events",
		"extensions/v1beta1, Resource=deployments",
	}, got)
}

func TestResourcesKnowTheirOtherVersions(t *testing.T) {
	t.Parallel()
	groups, lists := served()
	for _, version := range []string{"v2beta1", "v3alpha1", "v10"} {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: "autoscaling/" + version,
			APIResources: lists[4].APIResources})
	}
	hpa, ok := NewSnapshot(groups, lists).ByGroupResource(schema.GroupResource{Group: "autoscaling",
		Resource: "horizontalpodautoscalers"})
	require.True(t, ok)
	require.Equal(t, "v2", hpa.GroupVersion.Version)
	require.Equal(t, []string{"v10", "v1", "v2beta1", "v3alpha1"}, hpa.Others)
	other := hpa.In("v1")
	require.Equal(t, "autoscaling/v1, Resource=horizontalpodautoscalers", other.GroupVersionResource().String())
	require.Equal(t, hpa.GroupResource(), other.GroupResource())
	require.True(t, other.NotPreferred)
	require.Empty(t, other.Others)
	require.False(t, hpa.NotPreferred)
}

func TestResolveAcceptsPluralSingularAndShortNames(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(served())
	for name, want := range map[string]string{
		"pods": "pods", "pod": "pods", "po": "pods", "Pod": "pods", "PODS": "pods",
		"persistentvolumeclaim": "persistentvolumeclaims", "pvc": "persistentvolumeclaims",
		"deployments": "deployments.apps", "deploy": "deployments.apps", "deployments.apps": "deployments.apps",
		"deployments.extensions": "deployments.extensions", "deploy.ext": "deployments.extensions",
		"events": "events", "events.events.k8s.io": "events.events.k8s.io", "ev": "events",
		"events.events": "events.events.k8s.io",
		"bindings":      "", "pods/log": "", "unicorns": "", "": "", "*": "", "pods.nowhere": "",
	} {
		got, ok := s.Resolve(name)
		require.Equal(t, want != "", ok, name)
		require.Equal(t, want, got.String(), name)
	}
}

func TestSnapshotFindsResources(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(served())
	r, ok := s.ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	require.True(t, ok)
	require.Equal(t, "apps/v1, Resource=deployments", r.GroupVersionResource().String())
	r, ok = s.ByGroupResource(schema.GroupResource{Resource: "persistentvolumes"})
	require.True(t, ok)
	require.Equal(t, "/v1, Resource=persistentvolumes", r.GroupVersionResource().String())
	_, ok = s.ByKind(schema.GroupKind{Kind: "Deployment"})
	require.False(t, ok)
	_, ok = s.ByGroupResource(schema.GroupResource{Resource: "deployments"})
	require.False(t, ok)
}

func TestCheckKindKnowsWhatIsServed(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(served())
	for name, tt := range map[string]struct {
		resource, kind string
		clusterScoped  bool
		want           string // in the error; empty for none
	}{
		"its kind":        {"configmaps", "ConfigMap", false, ""},
		"in a group":      {"deployments.apps", "Deployment.apps", false, ""},
		"in no namespace": {"persistentvolumes", "PersistentVolume", true, ""},
		"unknown":         {"widgets.example.com", "Widget.example.com", true, ""},
		"another kind":    {"configmaps", "Pod", false, `a "Pod" is not one of configmaps, want a ConfigMap`},
		"in capitals":     {"configmaps", "CONFIGMAP", false, "want a ConfigMap"},
		"its list":        {"configmaps", "ConfigMapList", false, "want a ConfigMap"},
		"another group": {"deployments.apps", "Deployment.extensions", false,
			`a "Deployment.extensions" is not one of deployments.apps`},
		"unknown, of a known one": {"things", "Pod", false, `a "Pod" is one of pods, not of things`},
		"not in a namespace":      {"configmaps", "ConfigMap", true, "configmaps are in namespaces"},
		"in a namespace":          {"persistentvolumes", "PersistentVolume", false, "persistentvolumes are in no namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := s.CheckKind(schema.ParseGroupResource(tt.resource), schema.ParseGroupKind(tt.kind), !tt.clusterScoped)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// server is a discovery client that calls a function.
type server struct {
	clientdiscovery.DiscoveryInterface
	answer func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
}

func (s server) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return s.answer()
}

func TestHelperReturnsWhatIsServedNow(t *testing.T) {
	t.Parallel()
	calls, failure := 0, error(nil)
	h := New(server{answer: func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
		calls++
		groups, lists := served()
		return groups, lists, failure
	}}, hclog.NewNullLogger())
	first, err := h.Snapshot(t.Context())
	require.NoError(t, err)
	second, err := h.Snapshot(t.Context())
	require.NoError(t, err)
	require.NotSame(t, first, second)
	require.Equal(t, 2, calls)

	failure = &clientdiscovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
		{Group: "metrics.k8s.io", Version: "v1"}: errors.New("no endpoints"),
	}}
	partial, err := h.Snapshot(t.Context())
	require.NoError(t, err)
	require.Len(t, partial.Resources(), len(second.Resources()))
	require.Equal(t, []string{"API group metrics.k8s.io/v1 could not be discovered, its objects are left out: no " +
		"endpoints"}, partial.Warnings())

	failure = errors.New("connection refused")
	_, err = h.Snapshot(t.Context())
	require.ErrorContains(t, err, "discover the resources of the API server: connection refused")
}

func TestRecentSnapshotIsNotOlderThanASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := New(server{answer: func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
			calls++
			groups, lists := served()
			return groups, lists, nil
		}}, hclog.NewNullLogger())
		first, err := h.Recent(t.Context())
		require.NoError(t, err)
		time.Sleep(recent - time.Nanosecond)
		again, err := h.Recent(t.Context())
		require.NoError(t, err)
		require.Same(t, first, again)
		time.Sleep(time.Nanosecond)
		later, err := h.Recent(t.Context())
		require.NoError(t, err)
		require.NotSame(t, first, later)
		require.Equal(t, 2, calls)
	})
}

// TestCallersShareDiscovery has callers ask while a discovery is under way. It may have begun before they asked, so
// they share the next one.
func TestCallersShareDiscovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		h := New(server{answer: func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
			if calls.Add(1) == 1 {
				<-release
			}
			groups, lists := served()
			return groups, lists, nil
		}}, hclog.NewNullLogger())
		const callers = 5
		snapshots := make(chan *Snapshot, callers)
		ask := func() {
			s, err := h.Snapshot(t.Context())
			if err == nil {
				snapshots <- s
			}
		}
		go ask()
		synctest.Wait() // the first is in its discovery
		for range callers - 1 {
			go ask()
		}
		synctest.Wait() // the others wait for it
		close(release)
		shared := map[*Snapshot]int{}
		for range callers {
			shared[<-snapshots]++
		}
		require.ElementsMatch(t, []int{1, callers - 1}, slices.Collect(maps.Values(shared)))
		require.EqualValues(t, 2, calls.Load())
	})
}

// TestNamesAreLookedUpAgain asks for a resource that is served a moment after its definition was installed.
func TestNamesAreLookedUpAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		names []string
		calls int
	}{
		"known":           {[]string{"pods", "deploy"}, 1},
		"a pattern":       {[]string{"*.example.io", "*"}, 1},
		"none":            {nil, 1},
		"just installed":  {[]string{"pods", "mg"}, 2},
		"never installed": {[]string{"unicorns"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				h := New(server{answer: func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
					groups, lists := served()
					if calls++; calls > 1 {
						lists = append(lists, &metav1.APIResourceList{GroupVersion: "example.io/v1", APIResources: []metav1.APIResource{
							{Name: "mugs", SingularName: "mug", Kind: "Mug", ShortNames: []string{"mg"}, Namespaced: true, Verbs: all},
						}})
					}
					return groups, lists, nil
				}}, hclog.NewNullLogger())
				s, err := h.SnapshotWith(t.Context(), tt.names)
				require.NoError(t, err)
				require.Equal(t, tt.calls, calls)
				_, known := s.Resolve("mg")
				require.Equal(t, tt.calls > 1, known)
			})
		})
	}
}
