package reply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

func TestIdentifiersMustNameAnObject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id   *shared.ResourceIdentifier
		want string
	}{
		"namespaced":     {&shared.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "n", Name: "a"}, ""},
		"cluster-scoped": {&shared.ResourceIdentifier{Resource: "persistentvolumes", Name: "a"}, ""},
		"RBAC has odd names": {&shared.ResourceIdentifier{Group: "rbac.authorization.k8s.io", Resource: "clusterroles",
			Name: "system:node..x"}, ""},
		"nil":         {nil, `additionalItems[1] ("/") must name a resource and an object`},
		"no resource": {&shared.ResourceIdentifier{Namespace: "n", Name: "a"}, "must name a resource"},
		"no name":     {&shared.ResourceIdentifier{Resource: "pods", Namespace: "n"}, "must name a resource and an object"},
		"a path as name": {&shared.ResourceIdentifier{Resource: "pods", Name: "../../etc/passwd"},
			`"../../etc/passwd" cannot be part`},
		"parent as namespace": {&shared.ResourceIdentifier{Resource: "pods", Namespace: "..", Name: "a"},
			`".." cannot be part`},
		"a path as resource": {&shared.ResourceIdentifier{Resource: "pods/exec", Name: "a"}, `"pods/exec" cannot be part`},
		"a path as group": {&shared.ResourceIdentifier{Group: "a/b", Resource: "pods", Name: "a"},
			`"a/b" cannot be part`},
		"a zero byte": {&shared.ResourceIdentifier{Resource: "pods", Name: "a\x00b"}, "cannot be part"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fine := &shared.ResourceIdentifier{Resource: "pods", Name: "fine"}
			got, err := reply.Identifiers("additionalItems", []*shared.ResourceIdentifier{fine, test.id})
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, framework.ResourceIdentifier{
				Group: test.id.GetGroup(), Resource: test.id.GetResource(), Namespace: test.id.GetNamespace(),
				Name: test.id.GetName(),
			}, got[1])
		})
	}
}

func TestSelectorMustParse(t *testing.T) {
	t.Parallel()
	none, err := reply.Selector(nil)
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{}, none)

	full, err := reply.Selector(&shared.ResourceSelector{
		IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"b"},
		IncludedResources: []string{"c"}, ExcludedResources: []string{"d"}, Selector: "app in (x, y),!z",
	})
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{
		IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"b"},
		IncludedResources: []string{"c"}, ExcludedResources: []string{"d"}, LabelSelector: "app in (x, y),!z",
	}, full)

	_, err = reply.Selector(&shared.ResourceSelector{Selector: "app=(x"})
	require.ErrorContains(t, err, `label selector "app=(x"`)
}
