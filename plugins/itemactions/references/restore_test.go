package references_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/references"
)

// mapping maps a namespace to one that is mapped too, and two to the same.
func mapping() velerov1.RestoreSpec {
	return velerov1.RestoreSpec{
		NamespaceMapping: map[string]string{"shop": "bar", "bar": "pub", "inn": "pub", "": "never"},
	}
}

func TestSubjectsFollowTheirNamespaces(t *testing.T) {
	t.Parallel()
	for kind, of := range map[string]struct {
		resource string
		new      func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error)
	}{
		"RoleBinding":        {"rolebindings.rbac.authorization.k8s.io", references.NewRoleBindings},
		"ClusterRoleBinding": {"clusterrolebindings.rbac.authorization.k8s.io", references.NewClusterRoleBindings},
	} {
		action, err := of.new(t.Context(), nil)
		require.NoError(t, err)
		selector, err := action.AppliesTo(t.Context())
		require.NoError(t, err)
		require.Equal(t, framework.ResourceSelector{IncludedResources: []string{of.resource}}, selector)
		binding := func(subjects string) string {
			return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"b"},
				"roleRef":{"kind":"Role","name":"r"},"subjects":` + subjects + `}`
		}
		full := binding(`[{"kind":"ServiceAccount","name":"a","namespace":"shop"},{"kind":"User","name":"ada"},
			{"kind":"ServiceAccount","name":"b","namespace":"other"},{"kind":"ServiceAccount","name":"c","namespace":"bar"},
			{"kind":"Group","name":"system:serviceaccounts:shop"},{"kind":"Group","name":"system:serviceaccounts"},
			{"kind":"User","name":"system:serviceaccount:shop:bot"},{"kind":"User","name":"system:serviceaccount:shop"},
			{"kind":"Group","name":"system:serviceaccounts:other"},{"kind":"Group","name":"shop"}]`)
		for name, row := range map[string]actiontest.Restore{
			"mapped once each": {
				Item: full, Spec: mapping(),
				Want: binding(`[{"kind":"ServiceAccount","name":"a","namespace":"bar"},{"kind":"User","name":"ada"},
					{"kind":"ServiceAccount","name":"b","namespace":"other"},{"kind":"ServiceAccount","name":"c","namespace":"pub"},
					{"kind":"Group","name":"system:serviceaccounts:bar"},{"kind":"Group","name":"system:serviceaccounts"},
					{"kind":"User","name":"system:serviceaccount:bar:bot"},{"kind":"User","name":"system:serviceaccount:shop"},
					{"kind":"Group","name":"system:serviceaccounts:other"},{"kind":"Group","name":"shop"}]`),
			},
			"two that become one": {Spec: mapping(), Item: binding(
				`[{"kind":"Group","name":"system:serviceaccounts:bar"},{"kind":"Group","name":"system:serviceaccounts:inn"}]`),
				Want: binding(`[{"kind":"Group","name":"system:serviceaccounts:pub"}]`)},
			"no mapping": {Item: full},
			"none of them mapped": {Item: binding(
				`[{"kind":"Group","name":"g","namespace":""},{"kind":"ServiceAccount","name":"b","namespace":"other"}]`,
			), Spec: mapping()},
			"no subjects":      {Item: binding(`null`), Spec: mapping()},
			"of other shapes":  {Item: binding(`["shop",7,{},{"kind":"User","name":[]},{"kind":"ServiceAccount"}]`), Spec: mapping()},
			"of another group": {Item: `{"apiVersion":"example.com/v1","kind":"` + kind + `","subjects":[{"kind":"Group","name":"system:serviceaccounts:shop"}]}`, Spec: mapping()},
		} {
			t.Run(kind+" "+name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
		}
	}
}

// TestReferencesFollowTheirNamespaces has an object of each form and shape of the table.
func TestReferencesFollowTheirNamespaces(t *testing.T) {
	t.Parallel()
	action, err := references.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	for _, resource := range []string{"mutatingwebhookconfigurations.admissionregistration.k8s.io", "services",
		"httproutes.gateway.networking.k8s.io", "cronjobs.batch"} {
		require.Contains(t, selector.IncludedResources, resource)
	}
	const admission = `{"apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"o"},"kind":`
	for name, row := range map[string][2]string{
		"webhooks": {admission + `"ValidatingWebhookConfiguration","webhooks":[
			{"clientConfig":{"service":{"namespace":"shop","name":"s"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"inn"}}},
			{"clientConfig":{"url":"https://s.shop.svc"}}, {"clientConfig":{"service":{"namespace":"other"}}}]}`,
			admission + `"ValidatingWebhookConfiguration","webhooks":[
			{"clientConfig":{"service":{"namespace":"bar","name":"s"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"pub"}}},
			{"clientConfig":{"url":"https://s.shop.svc"}}, {"clientConfig":{"service":{"namespace":"other"}}}]}`},
		"parameters of a policy": {
			admission + `"MutatingAdmissionPolicyBinding","spec":{"paramRef":{"name":"p","namespace":"shop"}}}`,
			admission + `"MutatingAdmissionPolicyBinding","spec":{"paramRef":{"name":"p","namespace":"bar"}}}`},
		"an API service": {
			`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"a","annotations":{"cert-manager.io/inject-ca-from":"shop/cert"}},"spec":{"service":{"namespace":"shop"}}}`,
			`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"a","annotations":{"cert-manager.io/inject-ca-from":"bar/cert"}},"spec":{"service":{"namespace":"bar"}}}`},
		"a conversion webhook": {
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"conversion":{"webhook":{"clientConfig":{"service":{"namespace":"shop"}}}}}}`,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"conversion":{"webhook":{"clientConfig":{"service":{"namespace":"bar"}}}}}}`},
		"a network policy": {
			`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","spec":{"ingress":[{"from":[{"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["bar","inn","other"]},{"key":"team","values":["shop"]}]}}]}]}}`,
			`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","spec":{"ingress":[{"from":[{"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["pub","other"]},{"key":"team","values":["shop"]}]}}]}]}}`},
		"an external name": {`{"apiVersion":"v1","kind":"Service","spec":{"externalName":"db.shop.svc.cluster.local"}}`,
			`{"apiVersion":"v1","kind":"Service","spec":{"externalName":"db.bar.svc.cluster.local"}}`},
		"an external name of elsewhere": {`{"apiVersion":"v1","kind":"Service","spec":{"externalName":"db.shop.example.com"}}`, ""},
		"a route": {
			`{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","spec":{"parentRefs":[{"name":"g","namespace":"shop"}],"rules":[{"backendRefs":[{"name":"s","namespace":"inn"}]}]}}`,
			`{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","spec":{"parentRefs":[{"name":"g","namespace":"bar"}],"rules":[{"backendRefs":[{"name":"s","namespace":"pub"}]}]}}`},
		"names of a monitor": {
			`{"apiVersion":"monitoring.coreos.com/v1","kind":"ServiceMonitor","spec":{"namespaceSelector":{"matchNames":["shop","other"]}}}`,
			`{"apiVersion":"monitoring.coreos.com/v1","kind":"ServiceMonitor","spec":{"namespaceSelector":{"matchNames":["bar","other"]}}}`},
		"the secrets of a volume": {
			`{"apiVersion":"v1","kind":"PersistentVolume","spec":{"csi":{"nodeStageSecretRef":{"name":"s","namespace":"shop"}},"rbd":{"secretRef":{"namespace":"shop"}}}}`,
			`{"apiVersion":"v1","kind":"PersistentVolume","spec":{"csi":{"nodeStageSecretRef":{"name":"s","namespace":"bar"}},"rbd":{"secretRef":{"namespace":"bar"}}}}`},
		"the secrets of a class": {
			`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","parameters":{"csi.storage.k8s.io/node-stage-secret-namespace":"shop","other":"shop"}}`,
			`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","parameters":{"csi.storage.k8s.io/node-stage-secret-namespace":"bar","other":"shop"}}`},
		"the affinity of a template": {
			`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"namespaces":["shop"]}}]}}}}}}}}`,
			`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"namespaces":["bar"]}}]}}}}}}}}`},
		"subjects of a flow schema": {
			`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","spec":{"rules":[{"subjects":[{"serviceAccount":{"namespace":"shop"}},{"user":{"name":"system:serviceaccount:shop:a"}}]}]}}`,
			`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","spec":{"rules":[{"subjects":[{"serviceAccount":{"namespace":"bar"}},{"user":{"name":"system:serviceaccount:bar:a"}}]}]}}`},
		"other shapes": {`{"apiVersion":"v1","kind":"PersistentVolume","spec":{"csi":[],"rbd":"shop","azureFile":{"secretNamespace":{}}}}`, ""},
		"another kind": {`{"apiVersion":"example.com/v1","kind":"Service","spec":{"externalName":"db.shop.svc"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actiontest.Restore{Item: row[0], Want: row[1], Spec: mapping()}.Run(t, action)
			actiontest.Restore{Item: row[0]}.Run(t, action)
		})
	}
}
