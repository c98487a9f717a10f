package maintenance_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
)

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "m"}, Data: data}
}

var shop = &velerov1.BackupRepositorySpec{
	VolumeNamespace: "shop", BackupStorageLocation: "default", RepositoryType: velerov1.RepositoryTypeKopia,
}

func TestSettingsOfARepositoryWinOverGlobalOnes(t *testing.T) {
	t.Parallel()
	job, warnings, err := maintenance.ParseJob(configMap(map[string]string{
		"global": `{"podResources": {"cpuLimit": "0", "memoryLimit": "1Gi"}, "keepLatestMaintenanceJobs": 5,
			"priorityClassName": "low", "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"},
			"loadAffinity": [{"nodeSelector": {"matchLabels": {"disk": "fast"}}}]}`,
		"shop-default-kopia":   `{"keepLatestMaintenanceJobs": 0, "podLabels": {"x": "y"}}`,
		"other-default-kopia":  `not JSON`,
		"shop-default-restic":  `{"keepLatestMaintenanceJobs": 7}`,
		"shop-default-kopia-2": `{}`,
	}), shop)
	require.NoError(t, err)
	require.Zero(t, job.Keep)
	require.Equal(t, "low", job.PriorityClassName)
	require.Equal(t, map[string]string{"a": "b"}, job.Labels)
	require.Equal(t, map[string]string{"c": "d"}, job.Annotations)
	require.Equal(t, map[string]string{"disk": "fast"}, job.Nodes.MatchLabels)
	require.Len(t, job.Resources.Limits, 1, "0 is no limit")
	require.Equal(t, "1Gi", job.Resources.Limits.Memory().String())
	require.Equal(t, []string{"ConfigMap velero/m: shop-default-kopia: priorityClassName, podAnnotations and podLabels " +
		"have an effect in the key global only"}, warnings)

	job, warnings, err = maintenance.ParseJob(configMap(nil), shop)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, maintenance.Job{Keep: 3}, job)
}

func TestMistakesInSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"podResources": {"memoryLimit": "much"}}`: `global: podResources.memoryLimit is "much", want a quantity`,
		`{"keepLatestMaintenanceJobs": -1}`:         "global: keepLatestMaintenanceJobs is -1, want 0 or more",
		`{"keepLatestMaintenanceJobs": "all"}`:      "cannot unmarshal string",
		`[]`:                                        "ConfigMap velero/m: global: ",
		`{"loadAffinity": [{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}`: "loadAffinity[0]." +
			"nodeSelector: ",
	} {
		_, _, err := maintenance.ParseJob(configMap(map[string]string{"global": text}), shop)
		require.ErrorContains(t, err, want, text)
	}
}

func TestSettingsOfRepositoriesAreTexts(t *testing.T) {
	t.Parallel()
	cm := configMap(map[string]string{
		"kopia": `{"cacheLimitMB": 2048, "fullMaintenanceInterval": "fastGC", "x": true}`, "restic": `{"a": {}}`,
	})
	settings, err := maintenance.ParseRepository(cm, velerov1.RepositoryTypeKopia)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"cacheLimitMB": "2048", "fullMaintenanceInterval": "fastGC", "x": "true"}, settings)
	_, err = maintenance.ParseRepository(cm, velerov1.RepositoryTypeRestic)
	require.ErrorContains(t, err, "ConfigMap velero/m: restic: a is map[string]interface {}, want a text")
	settings, err = maintenance.ParseRepository(configMap(nil), velerov1.RepositoryTypeKopia)
	require.NoError(t, err)
	require.Nil(t, settings)
	for text, want := range map[string]string{
		`{"cacheLimitMB": "lots"}`:                `ConfigMap velero/m: kopia: cacheLimitMB is "lots", want a number of MB`,
		`{"cacheLimitMB": -1}`:                    `cacheLimitMB is "-1", want a number`,
		`{"fullMaintenanceInterval": "weeklyGC"}`: `fullMaintenanceInterval is "weeklyGC", want normalGC, fastGC or eagerGC`,
	} {
		_, err = maintenance.ParseRepository(configMap(map[string]string{"kopia": text}), velerov1.RepositoryTypeKopia)
		require.ErrorContains(t, err, want)
	}
}

// TestKeysOfNewerVersionsAreWarnings has keys that are unknown, on each level.
func TestKeysOfNewerVersionsAreWarnings(t *testing.T) {
	t.Parallel()
	job, warnings, err := maintenance.ParseJob(configMap(map[string]string{"global": `{"keepLatest": 1,
		"loadAffinity": [{"nodeSelector": {"matchField": {}}, "storageClass": "fast"}],
		"podResources": {"gpuLimit": "1"}, "keepLatestMaintenanceJobs": 5}`}), shop)
	require.NoError(t, err)
	require.Equal(t, 5, job.Keep)
	require.Equal(t, []string{
		"ConfigMap velero/m: global: keepLatest is unknown and has no effect",
		"ConfigMap velero/m: global: loadAffinity[0].nodeSelector.matchField is unknown and has no effect",
		"ConfigMap velero/m: global: loadAffinity[0].storageClass is unknown and has no effect",
		"ConfigMap velero/m: global: podResources.gpuLimit is unknown and has no effect",
	}, warnings)
}
