package itemname

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNamesOfKubernetesResources(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"po": "pods", "Endpoints": "endpoints", "netpol": "networkpolicies.networking.k8s.io",
		"ing":    "ingresses.networking.k8s.io",
		"events": "events", "Deployment": "deployments.apps", "crd": "customresourcedefinitions.apiextensions.k8s.io",
		"apiservice":   "apiservices.apiregistration.k8s.io",
		"StorageClass": "storageclasses.storage.k8s.io", "hpa": "horizontalpodautoscalers.autoscaling",
		"pc":         "priorityclasses.scheduling.k8s.io",
		"psp.policy": "", "componentstatuses": "componentstatuses", "sts": "statefulsets.apps",
	} {
		resource, ok := BuiltIns().Resolve(name)
		require.Equal(t, want != "", ok, name)
		require.Equal(t, want, resource.String(), name)
	}
	for resource := range shortNames {
		_, known := BuiltIns().ByGroupResource(resource)
		require.True(t, known, resource)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Name{
		"deploy/shop/web": {Resource: "deploy", Namespace: "shop", Name: "web"},
		"pv/x":            {Resource: "pv", Name: "x", AnyNamespace: true},
	} {
		got, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
	for _, text := range []string{"", "a", "/a", "a/", "a/b/c/d"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "want RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME", text)
	}
	toys := schema.GroupResource{Group: "example.com", Resource: "toys"}
	for name, is := range map[string]bool{"toys": true, "toy": true, "Toy": true, "toys.example.com": true, "balls": false,
		"pods": false, "toys.other.io": false} {
		require.Equal(t, is, Name{Resource: name}.Is(toys, "v1", "Toy", true), name)
	}
	require.True(t, Name{Resource: "toys"}.Is(toys, "", "", false), "the kind is not known")
	require.True(t, Name{Resource: "po"}.Is(schema.GroupResource{Resource: "pods"}, "", "", true))
}
