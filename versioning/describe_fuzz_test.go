package versioning

import (
	"testing"

	"github.com/stretchr/testify/require"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
)

// FuzzDescribed validates any description of a plugin of itself. A valid one has a kind that can be written and read.
func FuzzDescribed(f *testing.F) {
	f.Add("kind", "a.b/c", int32(1), []byte(`{"type":"object"}`), "pods")
	f.Add("kind/v2", "", int32(0), []byte(`null`), "")
	f.Add("", "a", int32(-1), []byte(`[null]`), "a\nb")
	f.Fuzz(func(t *testing.T, kind, name string, version int32, schema []byte, object string) {
		listed, err := validatePlugin(&plugininfov1.Plugin{Kind: kind, Name: name, Version: version, ConfigSchema: schema,
			Objects: []string{object}})
		if err == nil {
			require.NotEmpty(t, listed.Kind)
		}
	})
}
