package glue_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

func TestParseFlagsSkipsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]glue.Flags{
		"":                                      {LogLevel: hclog.Info},
		"--log-level=debug":                     {LogLevel: hclog.Debug},
		"--log-level warning":                   {LogLevel: hclog.Warn},
		"-log-level=fatal":                      {LogLevel: hclog.Error},
		"--log-level=panic":                     {LogLevel: hclog.Error},
		"--log-level=TRACE":                     {LogLevel: hclog.Trace},
		"--log-level=loud":                      {LogLevel: hclog.Info},
		"--log-level --features=A":              {LogLevel: hclog.Info, Features: []string{"A"}},
		"--log-level":                           {LogLevel: hclog.Info},
		"--log-level=debug --log-level=error":   {LogLevel: hclog.Error},
		"--log-format=json":                     {LogLevel: hclog.Info, LogFormat: "json"},
		"--features=EnableCSI,,EnableX":         {LogLevel: hclog.Info, Features: []string{"EnableCSI", "EnableX"}},
		"--features EnableCSI --features=B":     {LogLevel: hclog.Info, Features: []string{"EnableCSI", "B"}},
		"--uploader-type=kopia run -x - -- --=": {LogLevel: hclog.Info},
		"--default-volumes-to-fs-backup=true --new-in-2030 5 --features=A": {LogLevel: hclog.Info, Features: []string{"A"}},
	} {
		require.Equal(t, want, glue.ParseFlags(strings.Fields(args)), "args %q", args)
	}
}

func FuzzParseFlagsNeverFails(f *testing.F) {
	f.Add("--log-level\n--\n-\n=\n--features\n,")
	f.Fuzz(func(t *testing.T, args string) {
		flags := glue.ParseFlags(strings.Split(args, "\n"))
		require.NotEqual(t, hclog.NoLevel, flags.LogLevel)
		require.NotContains(t, flags.Features, "")
	})
}
