package pluginstatus

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// TestConfigured has a plugin with a configuration that its schema describes, and a store of locations.
func TestConfigured(t *testing.T) {
	t.Parallel()
	file, err := config.Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nplugins: {concurrency: {a.io/x: 2}, "+
		"config: {a.io/x: {pin: 1234, note: \"a <b> \\u001b[31m\"}}}\n"))
	require.NoError(t, err)
	report := &serverreport.PluginReport{Plugins: []serverreport.Plugin{
		{Name: "a.io/x", Details: &serverreport.Details{
			ConfigSchema: json.RawMessage(`{"properties": {"pin": {"writeOnly": true}}}`)}},
		{Name: "velero.io/aws"}}}
	locations := make([]velerov1.BackupStorageLocation, 2)
	locations[0].Name, locations[0].Spec.Provider, locations[1].Spec.Provider = "default", "aws", "other"
	locations[0].Spec.Config = map[string]string{"region": "r", "accessKey": "S3CRET"}
	c := NewConfigured(report, file, "key a of ConfigMap b", locations, nil)
	c.Problem = "you may not list volumesnapshotlocations"
	var text strings.Builder
	c.Print(layout.NewDescription(&text))
	require.Equal(t, `
Configured with:
  key a of ConfigMap b
  you may not list volumesnapshotlocations
  plugins.concurrency.a.io/x:
    2
  plugins.config.a.io/x:
    {
      "note": "a <b> \u001b[31m",
      "pin": "(left-out)"
    }
  location default:
    {
      "accessKey": "(left-out)",
      "region": "r"
    }
`, text.String())
	text.Reset()
	NewConfigured(&serverreport.PluginReport{}, &config.File{}, "", nil, nil).Print(layout.NewDescription(&text))
	require.Equal(t, "\nConfigured with:\n  nothing: its defaults\n", text.String())
}
