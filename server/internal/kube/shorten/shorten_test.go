package shorten_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

func TestText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"empty":            {"", 3, ""},
		"at the limit":     {"abc", 3, "abc"},
		"longer":           {"abcd", 3, "abc..."},
		"inside a letter":  {"éé", 3, "é..."},
		"after a letter":   {"éé", 2, "é..."},
		"no room":          {"abc", 0, "..."},
		"invalid is kept":  {"a\xffb", 3, "a\xffb"},
		"invalid, shorter": {"a\xffbc", 3, "ab..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, shorten.Text(tt.text, tt.limit))
		})
	}
}
