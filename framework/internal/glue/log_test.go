package glue

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

func TestLogLineIsJSONObjectForGoPlugin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write func(hclog.Logger)
		want  map[string]any
	}{
		"plain":  {func(l hclog.Logger) { l.Info("m") }, map[string]any{"@message": "m", "@level": "info"}},
		"by Log": {func(l hclog.Logger) { l.Log(hclog.Warn, "m") }, map[string]any{"@message": "m", "@level": "warn"}},
		"fields": {func(l hclog.Logger) { l.Info("m", "a", 1) }, map[string]any{"@message": "m", "@level": "info", "a": 1.0}},
		"With": {func(l hclog.Logger) { l.With("a", "b").Info("m") },
			map[string]any{"@message": "m", "@level": "info", "a": "b"}},
		"Named": {func(l hclog.Logger) { l.Named("n").Info("m") }, map[string]any{"@message": "m", "@level": "info",
			"@module": "n"}},
		"ResetNamed": {func(l hclog.Logger) { l.Named("x").ResetNamed("n").Info("m") },
			map[string]any{"@message": "m", "@level": "info", "@module": "n"}},
		"two lines": {func(l hclog.Logger) { l.Info("a\nb") }, map[string]any{"@message": "a\nb", "@level": "info"}},
		"no key": {func(l hclog.Logger) { l.Info("m", "alone") }, map[string]any{"@message": "m", "@level": "info",
			hclog.MissingKey: "alone"}},
		"plain error": {func(l hclog.Logger) { l.Error("m", "error", errors.New("e")) },
			map[string]any{"@message": "m", "@level": "error", "error": "e"}},
		"not at level": {func(l hclog.Logger) { l.Debug("m"); l.Trace("m") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var output bytes.Buffer
			test.write(NewLogger(&output, hclog.Info))
			if test.want == nil {
				require.Empty(t, output.String())
				return
			}
			require.Equal(t, 1, bytes.Count(output.Bytes(), []byte("\n")))
			var line map[string]any
			require.NoError(t, json.Unmarshal(output.Bytes(), &line))
			require.Equal(t, "plugin", line["@logSourceSetBy"])
			require.Regexp(t, `^glue/log_test\.go:\d+$`, line["logSource"])
			delete(line, "@logSourceSetBy")
			delete(line, "logSource")
			require.Equal(t, test.want, line)
		})
	}
}
