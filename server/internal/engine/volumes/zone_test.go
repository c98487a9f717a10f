package volumes

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestZoneOfVolume(t *testing.T) {
	t.Parallel()
	affinity := func(terms string) string {
		return `{"metadata":{"name":"pv"},"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[` + terms + `]}}}}`
	}
	in := func(key, zone string) string {
		return `{"matchExpressions":[{"key":"` + key + `","operator":"In","values":["` + zone + `","other"]}]}`
	}
	for pv, want := range map[string]string{
		`{"metadata":{"name":"pv"}}`:                                                                                   "",
		`{"metadata":{"name":"pv"},"spec":{"nodeAffinity":{}}}`:                                                        "",
		`{"metadata":{"labels":{"failure-domain.beta.kubernetes.io/zone":"old"}}}`:                                     "old",
		`{"metadata":{"labels":{"topology.kubernetes.io/zone":"new","failure-domain.beta.kubernetes.io/zone":"old"}}}`: "new",
		affinity(in("topology.ebs.csi.aws.com/zone",
			"eu-1a")): "eu-1a",
		affinity(in("topology.kubernetes.io/zone",
			"eu-1b")): "eu-1b",
		affinity(in("topology.gke.io/zone", "a") + "," +
			in("topology.gke.io/zone", "b")): "a__b",
		affinity(in("kubernetes.io/hostname", "node")):                                        "",
		affinity(`{"matchExpressions":[{"key":"topology.gke.io/zone","operator":"Exists"}]}`): "",
		affinity(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}`):  "",
	} {
		var volume corev1.PersistentVolume
		require.NoError(t, json.Unmarshal([]byte(pv), &volume))
		require.Equal(t, want, zoneOf(&volume), pv)
	}
}
