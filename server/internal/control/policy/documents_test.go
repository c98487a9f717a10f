package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// TestPoliciesAcceptTheConfigsInTheDocuments checks each config against the policy that it names.
func TestPoliciesAcceptTheConfigsInTheDocuments(t *testing.T) {
	t.Parallel()
	host, err := pluginhost.New(t.Context(), pluginhost.Config{BuiltIns: plugins.Policies(), Log: hclog.NewNullLogger()})
	require.NoError(t, err)
	t.Cleanup(host.Close)
	for path, want := range map[string]int{"../../../../plugins/queueadmission/README.md": 4,
		"../../../../examples/admission-policy/README.md": 1} {
		document, err := os.ReadFile(path)
		require.NoError(t, err)
		blocks := strings.Split(string(document), "```yaml\n")[1:]
		require.Len(t, blocks, want, path)
		for _, block := range blocks {
			text, _, _ := strings.Cut(block, "```")
			file, err := config.Parse(path, []byte(text))
			require.NoError(t, err)
			warnings, err := file.Check(func(kind, name string) ([]byte, error) {
				if name == "example.cleat.dev/office-hours" {
					return os.ReadFile("../../../../examples/admission-policy/schema.json")
				}
				entry, err := host.Find(kind, name)
				return entry.ConfigSchema, err
			})
			require.NoError(t, err)
			require.Empty(t, warnings)
		}
	}
}
