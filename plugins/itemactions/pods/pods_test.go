package pods_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/pods"
)

// full has every field that an action on pods reads.
const full = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"},"spec":{
	"serviceAccountName":"web","nodeName":"node-1","priority":1000,"priorityClassName":"high",
	"volumes":[
		{"name":"data","persistentVolumeClaim":{"claimName":"web-data"}},
		{"name":"web-token-x7k2p","secret":{"secretName":"web-token-x7k2p"}},
		{"name":"logs","persistentVolumeClaim":{"claimName":"web-logs","readOnly":true}},
		{"name":"settings","configMap":{"name":"web"}}],
	"initContainers":[{"name":"init","volumeMounts":[{"name":"web-token-x7k2p","mountPath":"/t"}]}],
	"containers":[
		{"name":"main","volumeMounts":[{"name":"data","mountPath":"/d"},{"name":"web-token-x7k2p","mountPath":"/t"}]},
		{"name":"side"}]}}`

var (
	class   = framework.ResourceIdentifier{Group: "scheduling.k8s.io", Resource: "priorityclasses", Name: "high"}
	data    = framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "web-data"}
	scratch = framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "web-scratch"}
	logs    = framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "web-logs"}
)

func pod(spec string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"},"spec":` + spec + `}`
}

func TestBackupOfPodAddsClaimsAndPriorityClass(t *testing.T) {
	t.Parallel()
	action, err := pods.NewBackup(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"pods"}}, selector)
	for name, row := range map[string]actiontest.Backup{
		"claims and class": {Item: full, Additional: []framework.ResourceIdentifier{class, data, logs}},
		"an ephemeral volume": {Item: pod(
			`{"volumes":[{"name":"scratch","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}]}`,
		), Additional: []framework.ResourceIdentifier{scratch}},
		"class only": {Item: pod(`{"priorityClassName":"high","volumes":null}`),
			Additional: []framework.ResourceIdentifier{class}},
		"nothing":                {Item: pod(`{"volumes":[{"name":"a","emptyDir":{}}]}`)},
		"a claim without name":   {Item: pod(`{"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":""}}]}`)},
		"no spec":                {Item: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`},
		"volumes are not a list": {Item: pod(`{"volumes":{}}`), Err: "spec.volumes is an object, want a list"},
		"a volume is not an object": {Item: pod(`{"volumes":[{},"data"]}`),
			Err: "spec.volumes[1] is a string, want an object"},
		"a claim is not an object": {Item: pod(`{"volumes":[{"persistentVolumeClaim":"data"}]}`),
			Err: "spec.volumes[0]: cannot restore struct from: string"},
		"class is not a string": {Item: pod(`{"priorityClassName":7}`),
			Err: "spec.priorityClassName is a number, want a string"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.BackupShapes(t, action, full)
}

func TestRestoreOfPodAddsClaims(t *testing.T) {
	t.Parallel()
	action, err := pods.NewAddClaims(t.Context(), nil)
	require.NoError(t, err)
	mapped := `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop-copy","name":"web"},"spec":{
		"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"web-data"}}]}}`
	for name, row := range map[string]actiontest.Restore{
		"claims": {Item: full, Additional: []framework.ResourceIdentifier{data, logs}},
		"from the namespace in the backup": {Item: mapped, FromBackup: full,
			Additional: []framework.ResourceIdentifier{data}},
		"none": {Item: pod(`{}`)},
		"foreign": {Item: pod(`{"volumes":[7]}`),
			Err: "spec.volumes[0] is a number, want an object"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, full, velerov1.RestoreSpec{})
}

func TestRestoredPodIsFreeOfItsPreviousCluster(t *testing.T) {
	t.Parallel()
	action, err := pods.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	for name, row := range map[string]actiontest.Restore{
		"node, priority and token volume go": {
			Item: full,
			Want: `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"},"spec":{
				"serviceAccountName":"web","priorityClassName":"high",
				"volumes":[
					{"name":"data","persistentVolumeClaim":{"claimName":"web-data"}},
					{"name":"logs","persistentVolumeClaim":{"claimName":"web-logs","readOnly":true}},
					{"name":"settings","configMap":{"name":"web"}}],
				"initContainers":[{"name":"init"}],
				"containers":[{"name":"main","volumeMounts":[{"name":"data","mountPath":"/d"}]},{"name":"side"}]}}`,
			Additional: []framework.ResourceIdentifier{class},
		},
		"the token of another account stays": {
			Item: pod(`{"serviceAccountName":"web","volumes":[{"name":"other-token-x7k2p"}],"containers":[{"name":"main","volumeMounts":[{"name":"other-token-x7k2p"}]}]}`),
		},
		"a projected token stays": {
			Item: pod(`{"serviceAccountName":"web","volumes":[{"name":"kube-api-access-x7k2p","projected":{"sources":[]}}]}`),
		},
		"the only volume": {
			Item: pod(`{"serviceAccountName":"web","volumes":[{"name":"web-token-x7k2p"}]}`),
			Want: pod(`{"serviceAccountName":"web"}`),
		},
		"no class, no additional items": {Item: pod(`{"nodeName":"a"}`), Want: pod(`{}`)},
		"foreign mounts": {
			Item: pod(`{"containers":[{},{"volumeMounts":[{"name":7}]}]}`),
			Err:  "spec.containers[1].volumeMounts[0].name is a number, want a string",
		},
		"foreign spec": {Item: pod(`[]`), Err: "spec is a list, want an object"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, full, velerov1.RestoreSpec{})
}
