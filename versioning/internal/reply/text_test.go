package reply_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

func TestLineMustBeOneNonEmptyLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"waits for nightly":              "",
		strings.Repeat("x", 1024):        "",
		"ждёт":                           "",
		"":                               "reason is empty",
		" \t":                            "reason is empty",
		strings.Repeat("x", 1025):        "reason has 1025 bytes, want at most 1024",
		"two\nlines":                     `reason "two\nlines" has control characters, want one line`,
		strings.Repeat("x", 50) + "\x00": `reason "` + strings.Repeat("x", 40) + `..." has control characters`,
	} {
		err := reply.Line("reason", text)
		if want == "" {
			require.NoError(t, err, "%q", text)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestConfigIsAlwaysAnObject(t *testing.T) {
	t.Parallel()
	require.Equal(t, "{}", string(reply.Config(nil)))
	require.Equal(t, `{"a":1}`, string(reply.Config([]byte(`{"a":1}`))))
}
