package restores_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/test/site"
)

func TestResourcePoliciesAndModifiersOfConfigMaps(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := s.Serve()
	s.Available()
	shop := s.Workload(2)
	require.NoError(t, s.Client.Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "password"}}))
	for name, document := range map[string]string{
		"no-secrets": "version: v1\nincludeExcludePolicy: {excludedNamespaceScopedResources: [secret]}",
		"rename": "version: v1\nresourceModifierRules: [{conditions: {groupResource: configmaps, namespaces: [" + shop +
			"], resourceNameRegex: ^item-b$}, patches: [{operation: replace, path: /data/n, value: w}]}]",
		"broken": "version: v2",
	} {
		require.NoError(t, s.Client.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
				Data: map[string]string{"document": document}}))
	}

	s.Must("backup", "create", "first", "--include-namespaces", shop, "--resource-policies-configmap", "no-secrets",
		"--wait")
	copied := shop + "-copy"
	s.Must("restore", "create", "back", "--from-backup", "first", "--namespace-mappings", shop+":"+copied,
		"--resource-modifier-configmap", "rename", "--wait")
	for item, want := range map[string]string{"item-a": "", "item-b": "w"} {
		var restored corev1.ConfigMap
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: copied, Name: item}, &restored))
		require.Equal(t, want, restored.Data["n"])
	}
	err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: copied, Name: "password"}, &corev1.Secret{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	_, errs, err := s.Run("restore", "create", "not", "--from-backup", "first", "--resource-modifier-configmap", "broken",
		"--wait")
	require.Error(t, err)
	require.Contains(t, errs, `version: "v2" is not supported, want v1`)
	require.NoError(t, server.Stop())
}
