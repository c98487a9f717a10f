package podvolumes

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestInitContainerFitsItsNamespaceAndPod(t *testing.T) {
	t.Parallel()
	const normal = `{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}`
	for name, row := range map[string]struct {
		containers string // JSON of a list
		ranges     string // JSON of spec.limits
		settings   map[string]string
		want       string
		err        string
	}{
		"nothing is said": {want: normal},
		"a small pod": {containers: `[{"resources":{"limits":{"cpu":"50m","memory":"100Mi"},"requests":{"cpu":"20m"}}}]`,
			want: `{"limits":{"cpu":"50m","memory":"100Mi"},"requests":{"cpu":"20m","memory":"100Mi"}}`},
		"a tiny pod": {containers: `[{"resources":{"limits":{"cpu":"1m","memory":"1Mi"}}}]`,
			want: `{"limits":{"cpu":"10m","memory":"48Mi"},"requests":{"cpu":"1m","memory":"1Mi"}}`},
		"two containers": {containers: `[{"resources":{"limits":{"cpu":"50m"}}},{"resources":{"limits":{"cpu":"20m"}}}]`,
			want: `{"limits":{"cpu":"70m","memory":"128Mi"},"requests":{"cpu":"70m","memory":"128Mi"}}`},
		"one of two containers": {containers: `[{"resources":{"limits":{"cpu":"50m"}}},{}]`, want: normal},
		"at most": {ranges: `[{"type":"Container","max":{"cpu":"60m","memory":"64Mi"}}]`,
			want: `{"limits":{"cpu":"60m","memory":"64Mi"},"requests":{"cpu":"60m","memory":"64Mi"}}`},
		"at most, of a pod": {ranges: `[{"type":"Container","max":{"cpu":"60m"}},{"type":"Pod","max":{"cpu":"50m"}}]`,
			want: `{"limits":{"cpu":"50m","memory":"128Mi"},"requests":{"cpu":"50m","memory":"128Mi"}}`},
		"at least": {ranges: `[{"type":"Container","min":{"cpu":"1"}},{"type":"PersistentVolumeClaim","max":{"cpu":"1m"}}]`,
			containers: `[{"resources":{"limits":{"cpu":"50m"}}}]`,
			want:       `{"limits":{"cpu":"1","memory":"128Mi"},"requests":{"cpu":"1","memory":"128Mi"}}`},
		"a ratio": {ranges: `[{"type":"Container","maxLimitRequestRatio":{"cpu":"2"}}]`,
			containers: `[{"resources":{"limits":{"cpu":"90m"},"requests":{"cpu":"30m"}}}]`,
			want:       `{"limits":{"cpu":"90m","memory":"128Mi"},"requests":{"cpu":"90m","memory":"128Mi"}}`},
		"settings": {settings: map[string]string{"cpuLimit": "200m", "memLimit": "0", "memRequest": "0"},
			containers: `[{"resources":{"limits":{"cpu":"50m"}}}]`,
			want:       `{"limits":{"cpu":"200m"},"requests":{"cpu":"50m"}}`},
		"settings that are not permitted": {settings: map[string]string{"cpuLimit": "200m"},
			ranges: `[{"type":"Container","max":{"cpu":"60m"}}]`,
			err: "a LimitRange of namespace shop refuses init container restore-wait: its cpu has the limit 200m and the " +
				"request 60m, and the limit is at most 60m; change data.cpuLimit and data.cpuRequest, or leave them out"},
		"a setting that is no quantity": {settings: map[string]string{"memLimit": "much"},
			err: `data.memLimit: "much" is not a quantity such as 128Mi`},
		"a request above the limit": {settings: map[string]string{"cpuLimit": "50m", "cpuRequest": "60m"},
			err: "the request of cpu, 60m, is above its limit, 50m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			require.NoError(t, corev1.AddToScheme(scheme))
			limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "limits"}}
			elsewhere := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "limits"}}
			require.NoError(t, json.Unmarshal([]byte(`[{"type":"Container","max":{"cpu":"1m"}}]`), &elsewhere.Spec.Limits))
			if row.ranges != "" {
				require.NoError(t, json.Unmarshal([]byte(row.ranges), &limits.Spec.Limits))
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
			if row.containers != "" {
				require.NoError(t, json.Unmarshal([]byte(row.containers), &pod.Spec.Containers))
			}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(limits, elsewhere).Build()
			got, err := resourcesFor(t.Context(), api, row.settings, pod)
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, row.want, string(text))
		})
	}
}
