package glue_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

func TestValidateNameRequiresDomainAndName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"example.io/stamp":                  "",
		"a/b":                               "",
		"velero.io/Any Text":                "",
		"":                                  `must be "domain/name"`,
		"stamp":                             `must be "domain/name"`,
		"/stamp":                            `must be "domain/name"`,
		"example.io/":                       `must be "domain/name"`,
		"example.io/a/b":                    `must be "domain/name"`,
		"Example.io/stamp":                  `"Example.io" is none`,
		"exa_mple.io/stamp":                 `"exa_mple.io" is none`,
		"-example.io/stamp":                 "is none",
		strings.Repeat("a", 254) + "/stamp": "is none",
	} {
		err := glue.ValidateName(name)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want, "name %q", name)
		}
	}
}
