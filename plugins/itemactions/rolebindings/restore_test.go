package rolebindings_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/rolebindings"
)

func binding(subjects string) string {
	return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"namespace":"shop","name":"b"},
		"roleRef":{"kind":"Role","name":"r"},"subjects":` + subjects + `}`
}

func TestSubjectsFollowTheirNamespaces(t *testing.T) {
	t.Parallel()
	for resource, newAction := range map[string]func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error){
		"rolebindings.rbac.authorization.k8s.io":        rolebindings.NewNamespaced,
		"clusterrolebindings.rbac.authorization.k8s.io": rolebindings.NewCluster,
	} {
		action, err := newAction(t.Context(), nil)
		require.NoError(t, err)
		selector, err := action.AppliesTo(t.Context())
		require.NoError(t, err)
		require.Equal(t, framework.ResourceSelector{IncludedResources: []string{resource}}, selector)

		full := binding(`[{"kind":"ServiceAccount","name":"a","namespace":"shop"},{"kind":"User","name":"ada"},
			{"kind":"ServiceAccount","name":"b","namespace":"other"},{"kind":"ServiceAccount","name":"c","namespace":"bar"}]`)
		mapping := velerov1.RestoreSpec{NamespaceMapping: map[string]string{"shop": "bar", "bar": "pub", "": "never"}}
		for name, row := range map[string]actiontest.Restore{
			"mapped once each": {
				Item: full, Spec: mapping,
				Want: binding(`[{"kind":"ServiceAccount","name":"a","namespace":"bar"},{"kind":"User","name":"ada"},
					{"kind":"ServiceAccount","name":"b","namespace":"other"},{"kind":"ServiceAccount","name":"c","namespace":"pub"}]`),
			},
			"no mapping": {Item: full},
			"none of them mapped": {Item: binding(
				`[{"kind":"Group","name":"g","namespace":""},{"kind":"ServiceAccount","name":"b","namespace":"other"}]`,
			), Spec: mapping},
			"no subjects": {Item: binding(`null`), Spec: mapping},
			"a subject is not an object": {Item: binding(`["a"]`), Spec: mapping,
				Err: "subjects[0] is a string, want an object"},
			"a namespace is none": {Item: binding(`[{},{"namespace":{}}]`), Spec: mapping,
				Err: "subjects[1].namespace is an object, want a string"},
		} {
			t.Run(resource+" "+name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
		}
		actiontest.RestoreShapes(t, action, full, mapping)
	}
}
