package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// TestFileAboutAPlugin has a plugin in all places of a file.
func TestFileAboutAPlugin(t *testing.T) {
	t.Parallel()
	file, err := config.Parse("cleat.yaml", []byte(`apiVersion: cleat.dev/v1
backups:
  admission: {plugin: a.io/x, config: {age: 1h}}
  manifestWriters: [{plugin: cleat.dev/manifest}, {plugin: a.io/x, config: {deep: true}}]
operations: {plugins: {a.io/x: {timeout: 1h}}}
plugins: {concurrency: {a.io/x: 3}, config: {a.io/x: {password: p}, a.io/y: {}}}
`))
	require.NoError(t, err)
	var got [][2]string
	for _, part := range file.About("a.io/x") {
		got = append(got, [2]string{part.Key, string(part.JSON)})
		require.Equal(t, part.Key != "operations.plugins.a.io/x" && part.Key != "plugins.concurrency.a.io/x", part.Config)
	}
	require.Equal(t, [][2]string{{"backups.admission.config", `{"age":"1h"}`},
		{"backups.manifestWriters[1].config", `{"deep":true}`}, {"operations.plugins.a.io/x", `{"timeout":"1h"}`},
		{"plugins.concurrency.a.io/x", "3"}, {"plugins.config.a.io/x", `{"password":"p"}`}}, got)
	require.Empty(t, file.About("a.io/none"))
	require.Empty(t, (&config.File{}).About("a.io/x"))
}
