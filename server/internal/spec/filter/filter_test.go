package filter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

func cluster() *discovery.Snapshot {
	verbs := metav1.Verbs{"list", "create", "get", "delete"}
	return discovery.NewSnapshot(nil, []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", ShortNames: []string{"po"}, Namespaced: true, Verbs: verbs},
			{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: verbs},
			{Name: "namespaces", Kind: "Namespace", ShortNames: []string{"ns"}, Verbs: verbs},
			{Name: "persistentvolumes", Kind: "PersistentVolume", ShortNames: []string{"pv"}, Verbs: verbs},
		}},
		{GroupVersion: "apps/v1",
			APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: verbs}}},
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		includes, excludes string // separated by spaces
		match, refuse      string
		everything         bool
	}{
		{match: "a b.c x/y", everything: true},
		{includes: "*", match: "a b", everything: true},
		{includes: "* a", match: "a b", everything: true},
		{includes: "a b", match: "a b", refuse: "c ab"},
		{excludes: "a", match: "b", refuse: "a"},
		{includes: "*", excludes: "a", match: "b", refuse: "a"},
		{includes: "a", excludes: "a", refuse: "a b"},
		{excludes: "*", refuse: "a"},
		{includes: "*.example.com", match: "a.example.com a.b.example.com", refuse: "example.com aXexample.com"},
		{includes: "a? b[12] c[!1]", match: "ab a1 b1 b2 c2", refuse: "a abc b3 c1"},
		{includes: "a.b+c", match: "a.b+c", refuse: "aXb+c a.bbc"},
		{includes: "a*", excludes: "*c", match: "a ab", refuse: "ac b"},
	} {
		names, err := filter.NewNames(strings.Fields(row.includes), strings.Fields(row.excludes))
		require.NoError(t, err)
		for _, name := range strings.Fields(row.match) {
			require.True(t, names.Match(name), "%+v: %s", row, name)
		}
		for _, name := range strings.Fields(row.refuse) {
			require.False(t, names.Match(name), "%+v: %s", row, name)
		}
		require.Equal(t, row.everything, names.Everything(), "%+v", row)
	}
	require.True(t, filter.Names{}.Match("anything"), "the zero value")
	for _, bad := range []string{"[", "{a", "a["} {
		_, err := filter.NewNames([]string{bad}, nil)
		require.ErrorContains(t, err, `included name: pattern "`+bad)
		_, err = filter.NewNames(nil, []string{bad})
		require.ErrorContains(t, err, `excluded name: pattern "`+bad)
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	existing := []string{"a1", "a2", "b1", "b2"}
	for _, row := range []struct {
		includes, excludes, list, missing string
		all, everything                   bool
	}{
		{list: "a1 a2 b1 b2", all: true, everything: true},
		{includes: "*", list: "a1 a2 b1 b2", all: true, everything: true},
		{includes: "*", excludes: "a*", list: "b1 b2", all: true},
		{excludes: "b?", list: "a1 a2", all: true},
		{includes: "a1 nope", list: "a1", missing: "nope"},
		{includes: "a* nope", list: "a1 a2", missing: "nope"},
		{includes: "a* a1", excludes: "a1", list: "a2"},
		{includes: "a1 b1", excludes: "a*", list: "b1"},
		{includes: "z*"},
		{includes: "z*", excludes: "a1"},
		{includes: "[ab]2", list: "a2 b2"},
	} {
		ns, err := filter.NewNamespaces(strings.Fields(row.includes), strings.Fields(row.excludes), existing)
		require.NoError(t, err)
		require.Equal(t, strings.Fields(row.list), append([]string{}, ns.List()...), "%+v", row)
		require.Equal(t, strings.Fields(row.missing), append([]string{}, ns.Missing()...), "%+v", row)
		require.Equal(t, row.all, ns.All(), "%+v", row)
		require.Equal(t, row.everything, ns.Everything(), "%+v", row)
	}
	all, err := filter.NewNamespaces(nil, nil, existing)
	require.NoError(t, err)
	some := all.Without("a1").Without("b2")
	require.Equal(t, []string{"a2", "b1"}, some.List())
	require.True(t, some.Everything(), "the filter itself includes everything")
	require.Equal(t, existing, all.List(), "Without must not change its receiver")
}

func TestCheckNamespacePattern(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "a", "a-b.c", "*", "a*b*", "a?", "[abc]x[0-9]", "a+"} {
		require.NoError(t, filter.CheckNamespacePattern(good), good)
	}
	for _, bad := range []string{"**", "a**b", "a|b", "(a)", "!a", "{a,b}", "a,b", "[", "]", "a]b[", "[]", "a[b", "[a][",
		"[a]]"} {
		require.ErrorContains(t, filter.CheckNamespacePattern(bad), "use *, ? and [abc]", bad)
		_, err := filter.NewNamespaces([]string{"x", bad}, nil, nil)
		require.Error(t, err, bad)
	}
}

func TestActionMatches(t *testing.T) {
	t.Parallel()
	pods, deployments := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "apps",
		Resource: "deployments"}
	pv := schema.GroupResource{Resource: "persistentvolumes"}
	for name, row := range map[string]struct {
		selector  framework.ResourceSelector
		gr        schema.GroupResource
		namespace string
		labels    map[string]string
		want      bool
	}{
		"everything":                 {gr: pods, namespace: "a", want: true},
		"everything, cluster-scoped": {gr: pv, want: true},
		"short name": {selector: framework.ResourceSelector{IncludedResources: []string{"po"}},
			gr: pods, namespace: "a", want: true},
		"another resource": {selector: framework.ResourceSelector{IncludedResources: []string{"po"}},
			gr: deployments, namespace: "a"},
		"glob": {selector: framework.ResourceSelector{IncludedResources: []string{"*.apps"}},
			gr: deployments, namespace: "a", want: true},
		"unknown names match nothing": {selector: framework.ResourceSelector{
			IncludedResources: []string{"unicorns"},
		}, gr: pods, namespace: "a"},
		"excluded": {selector: framework.ResourceSelector{ExcludedResources: []string{"pod"}}, gr: pods, namespace: "a"},
		"star among excludes is ignored": {selector: framework.ResourceSelector{ExcludedResources: []string{"*"},
			ExcludedNamespaces: []string{"*"}}, gr: pods, namespace: "a", want: true},
		"namespace glob": {selector: framework.ResourceSelector{IncludedNamespaces: []string{"a*"}},
			gr: pods, namespace: "ab", want: true},
		"another namespace": {selector: framework.ResourceSelector{IncludedNamespaces: []string{"a*"}},
			gr: pods, namespace: "b"},
		"namespaces refuse cluster-scoped": {selector: framework.ResourceSelector{IncludedNamespaces: []string{"a"}}, gr: pv},
		"excludes refuse cluster-scoped":   {selector: framework.ResourceSelector{ExcludedNamespaces: []string{"a"}}, gr: pv},
		"all namespaces accept cluster-scoped": {selector: framework.ResourceSelector{IncludedNamespaces: []string{"*"}},
			gr: pv, want: true},
		"labels": {selector: framework.ResourceSelector{LabelSelector: "app=db,tier!=x"},
			gr: pods, namespace: "a", labels: map[string]string{"app": "db"}, want: true},
		"other labels": {selector: framework.ResourceSelector{LabelSelector: "app=db,tier!=x"}, gr: pods, namespace: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action, err := filter.Resolve(row.selector, cluster())
			require.NoError(t, err)
			require.Equal(t, row.want, action.Matches(row.gr, row.namespace, func() map[string]string { return row.labels }))
		})
	}
	for want, selector := range map[string]framework.ResourceSelector{
		`label selector "a=b=c"`: {LabelSelector: "a=b=c"},
		`resources of the sel`:   {IncludedResources: []string{"["}},
		`namespaces of the sel`:  {ExcludedNamespaces: []string{"{"}},
	} {
		_, err := filter.Resolve(selector, cluster())
		require.ErrorContains(t, err, want)
	}
}

func TestListOfUnknownResourcesIncludesNothing(t *testing.T) {
	t.Parallel()
	snapshot := cluster()
	ns, err := filter.NewNamespaces(nil, nil, nil)
	require.NoError(t, err)
	always := []schema.GroupResource{{Resource: "secrets"}}
	for _, lists := range []filter.ResourceLists{
		{Included: []string{"unicorns"}}, {Included: []string{"secrets"}, AlwaysExcluded: always},
		{IncludedNamespaced: []string{"pv"}, IncludedClusterScoped: []string{"pods"}},
	} {
		resources, _, err := filter.NewResources(lists, ns, snapshot)
		require.NoError(t, err)
		for _, res := range snapshot.Resources() {
			if res.Name != "namespaces" {
				require.False(t, resources.Includes(res), "%+v: %s", lists, res.Name)
			}
		}
	}
}

// FuzzNames checks that no list of names makes the matcher panic, that excludes take precedence, and that a plain name
// matches itself.
func FuzzNames(f *testing.F) {
	f.Add("a*,b?", "[x-z]", "abc")
	f.Add("{a,b}", "", "a")
	f.Add(`a\*`, "**", "a*")
	f.Fuzz(func(t *testing.T, includes, excludes, name string) {
		in, ex := strings.Split(includes, ","), strings.Split(excludes, ",")
		names, err := filter.NewNames(in, ex)
		if err != nil {
			return
		}
		if names.Excluded(name) {
			require.False(t, names.Match(name))
		} else {
			require.Equal(t, names.Included(name), names.Match(name))
		}
		if !strings.ContainsAny(name, `*?[{\`) && name != "" {
			plain, err := filter.NewNames([]string{name}, nil)
			require.NoError(t, err)
			require.True(t, plain.Match(name))
		}
		ns, err := filter.NewNamespaces(in, ex, []string{name, "other"})
		if err != nil {
			return
		}
		for _, listed := range ns.List() {
			require.True(t, ns.Match(listed))
		}
	})
}

func TestNamespacesThatMatchNothingAreNamed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ includes, excludes, missing, unmatched string }{
		{includes: "*", excludes: "a1"},
		{includes: "a1 a*", excludes: "b?"},
		{includes: "a1 nope z*", missing: "nope", unmatched: "includedNamespaces:z*"},
		{excludes: "nope a1 z*", unmatched: "excludedNamespaces:nope excludedNamespaces:z*"},
	} {
		ns, err := filter.NewNamespaces(strings.Fields(row.includes), strings.Fields(row.excludes),
			[]string{"a1", "a2", "b1"})
		require.NoError(t, err)
		require.Equal(t, row.missing, strings.Join(ns.Missing(), " "), "%+v", row)
		require.Equal(t, row.unmatched, strings.ReplaceAll(strings.Join(ns.Unmatched(), " "), ": ", ":"), "%+v", row)
	}
}

func TestSelectorsRecordWhatTheyHaveMatched(t *testing.T) {
	t.Parallel()
	one, several := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1"}}, []*metav1.LabelSelector{
		{MatchLabels: map[string]string{"a": "1"}}, {MatchLabels: map[string]string{"b": "1"}},
		{MatchLabels: map[string]string{"c": "1"}},
	}
	_, err := filter.NewSelectors(one, several)
	require.ErrorContains(t, err, "cannot be used together")
	s, err := filter.NewSelectors(nil, several)
	require.NoError(t, err)
	require.Equal(t, []string{"a=1", "b=1", "c=1"}, s.Texts())
	require.False(t, s.Match(map[string]string{"d": "1"}))
	require.Len(t, s.Unmatched(), 3)
	require.True(t, s.Match(map[string]string{"a": "1", "b": "1"}))
	require.Equal(t, []string{"c=1"}, s.Unmatched())
	s.Matched("c=1")
	require.Empty(t, s.Unmatched())
	for _, none := range []*filter.Selectors{nil, new(filter.Selectors)} {
		require.True(t, none.Match(nil))
		require.Empty(t, none.Unmatched())
		require.False(t, none.Any())
	}
}
