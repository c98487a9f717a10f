package restore

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/modifiers"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

func TestResourceModifiersChangeRestoredObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns, target := unique(t, "mod"), unique(t, "moved")
	deployment := in("deployments.apps", "apps/v1", "Deployment", ns, "web", obj{"spec": obj{
		"replicas": 0, "selector": obj{"matchLabels": obj{"a": "b"}},
		"template": obj{"metadata": obj{"labels": obj{"a": "b"}},
			"spec": obj{"containers": []obj{{"name": "nginx", "image": "old"}, {"name": "side", "image": "kept"}}}},
	}})
	claim := in("persistentvolumeclaims", "v1", "PersistentVolumeClaim", ns, "data", obj{"spec": obj{
		"storageClassName": "standard", "accessModes": []string{"ReadWriteOnce"},
		"resources": obj{"requests": obj{"storage": "1Gi"}},
	}})
	shared := configMap(ns, "owned", obj{"data": obj{"a": "1", "b": "2"}, "metadata": obj{"managedFields": []obj{
		{"manager": "one", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
			"fieldsType": "FieldsV1", "fieldsV1": obj{"f:data": obj{".": obj{}, "f:a": obj{}}}},
		{"manager": "two", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-02T00:00:00Z", "fieldsType": "FieldsV1",
			"fieldsV1": obj{"f:data": obj{"f:b": obj{}}}},
	}}})
	rules, err := modifiers.Parse(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "m"},
		Data: map[string]string{"r": `
version: v1
resourceModifierRules:
- conditions: {groupResource: configmaps, namespaces: [` + ns + `], matches: [{path: /metadata/annotations/by-action, value: "yes"}]}
  patches: [{operation: replace, path: /data/a, value: changed}]
- conditions: {groupResource: configmaps, namespaces: [` + target + `]}
  patches: [{operation: replace, path: /data/a, value: "by the target's name"}]
- conditions: {groupResource: configmaps, resourceNameRegex: ^unsuited$}
  patches: [{operation: add, path: /data/half, value: done}, {operation: remove, path: /data/none}]
- conditions: {groupResource: configmaps, resourceNameRegex: ^before$}
  mergePatches: [{patchData: '{metadata: {name: after}}'}]
- conditions: {groupResource: persistentvolumeclaims}
  mergePatches: [{patchData: '{spec: {storageClassName: premium}}'}]
- conditions: {groupResource: '*.apps'}
  strategicPatches: [{patchData: '{spec: {template: {spec: {containers: [{name: nginx, image: new}]}}}}'}]
`}})
	require.NoError(t, err)
	action := &fakeAction{name: "example.com/annotate",
		applies: framework.ResourceSelector{IncludedResources: []string{"configmaps"}},
		execute: func(input restoreitemaction.Input) (*restoreitemaction.Result, error) {
			return mutate(input, func(o obj) {
				meta, _ := o["metadata"].(obj)
				meta["annotations"] = obj{"by-action": "yes"}
			})
		}}

	result, err := Run(t.Context(), Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero,
		Discovery: helperFor(t, c.config), Options: testOptions()},
		Request{
			Restore: newRestore("r", func(s *velerov1.RestoreSpec) { s.NamespaceMapping = map[string]string{ns: target} }),
			Archive: pack(t, namespaceThing(ns, nil), deployment, claim, shared, configMap(ns, "plain", nil),
				configMap(ns, "unsuited", nil), configMap(ns, "before", nil)),
			Actions: []restoreitemaction.Action{action}, Modifiers: rules, Log: testLog(t),
		})
	require.NoError(t, err)
	require.Equal(t, 1, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Contains(t, result.Results.Errors.Namespaces[target][0], "error modifying configmaps/"+target+
		"/unsuited: resourceModifierRules[2]: ")
	require.Equal(t, 1, result.Results.Warnings.Count(), "%+v", result.Results.Warnings)
	require.Contains(t, result.Results.Warnings.Velero[0],
		"spec.resourceModifier: resourceModifierRules[1] applies to no object that is restored",
		"its namespace is that of the target")
	require.Equal(t, []string{target + "/after(created)", target + "/owned(created)", target + "/plain(created)",
		target + "/unsuited(created)"}, entries(result, "v1/ConfigMap"))

	live := func(one thing, name string) obj {
		one.namespace, one.name = target, name
		return c.live(one)
	}
	for _, name := range []string{"plain", "unsuited", "after"} {
		require.Equal(t, obj{"a": "changed"}, dig(live(shared, name), "data"), name)
	}
	owned := live(shared, "owned")
	require.Equal(t, obj{"a": "changed", "b": "2"}, dig(owned, "data"))
	require.Len(t, dig(owned, "metadata", "managedFields"), 2, "ownership comes back for what was changed as well")
	require.Equal(t, "premium", dig(live(claim, "data"), "spec", "storageClassName"))
	containers, _ := dig(live(deployment, "web"), "spec", "template", "spec", "containers").([]any)
	require.Len(t, containers, 2)
	require.Equal(t, "new", dig(containers[0], "image"))
	require.Equal(t, "kept", dig(containers[1], "image"))
}
