package maintenance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
)

// FuzzParse reads any value of the ConfigMaps.
func FuzzParse(f *testing.F) {
	f.Add(`{"keepLatestMaintenanceJobs": 1, "podResources": {"memoryLimit": "1Gi"}}`)
	f.Add(`{"loadAffinity": [{"nodeSelector": {"matchLabels": {"a": "b"}}}]}`)
	f.Add(`{"cacheLimitMB": 2048, "enableCompression": true}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		cm := configMap(map[string]string{"global": text, "kopia": text})
		job, _, err := maintenance.ParseJob(cm, shop)
		if err == nil {
			require.GreaterOrEqual(t, job.Keep, 0)
		}
		settings, err := maintenance.ParseRepository(cm, shop.RepositoryType)
		if err == nil {
			require.NotNil(t, settings, text)
		}
	})
}
