package app

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/queueadmission/priority"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// What a schema cannot say is refused by the plugin's own Validate when the server starts, for a built-in and for a
// binary, with file, line and key.
func TestAcceptPlugins_ConfigIsValidated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programs.Copy(t, "./examples/admission-policy", filepath.Join(dir, "admission-policy"))
	programs.Copy(t, "./server/internal/host/pluginhost/testdata/misbehave", filepath.Join(dir, "zoned"))
	for name, test := range map[string]struct {
		file string
		want string
	}{
		"a binary": {
			file: `apiVersion: cleat.dev/v1
backups:
  admission:
    plugin: example.cleat.dev/office-hours
    config:
      quota: {default: 2}
      timeZone: Mars/Base
`,
			want: `cleat.yaml:7: backups.admission.config.timeZone: time zone "Mars/Base" is not known, want one as Europe/Berlin or UTC`,
		},
		"a built-in": {
			file: `apiVersion: cleat.dev/v1
backups:
  admission:
    plugin: cleat.dev/priority
    config:
      age: 0.5s
`,
			want: `cleat.yaml:6: backups.admission.config.age: it is 500ms, want at least 1s`,
		},
		"an action": {
			file: `apiVersion: cleat.dev/v1
plugins:
  config:
    example.io/zoned:
      zone: Mars/Base
`,
			want: `cleat.yaml:5: plugins.config.example.io/zoned.zone: "Mars/Base" is not on Earth`,
		},
		"an action with a wrong type": {
			file: `apiVersion: cleat.dev/v1
plugins:
  config:
    example.io/zoned:
      zone: 5
`,
			want: `cleat.yaml:5: plugins.config.example.io/zoned.zone: is the number 5, want text; put it in quotes`,
		},
		"an action with a right config": {
			file: `apiVersion: cleat.dev/v1
plugins:
  config:
    example.io/zoned: {zone: Europe/Berlin}
`,
		},
		"a binary with a right config": {
			file: `apiVersion: cleat.dev/v1
backups:
  admission:
    plugin: example.cleat.dev/office-hours
    config:
      timeZone: Europe/Berlin
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := config.Parse("cleat.yaml", []byte(test.file))
			require.NoError(t, err)
			options := config.Defaults()
			options.PluginDir = dir
			var log programs.Output
			host, err := NewHost(t.Context(), Config{
				Options: options, File: file, BuiltIns: []framework.Registration{priority.Register()},
				Log: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn}),
			}, nil, nil, nil)
			if test.want != "" {
				require.EqualError(t, err, test.want)
				return
			}
			require.NoError(t, err)
			host.Close()
			require.NotContains(t, log.String(), "not checked")
		})
	}
}
