package framework_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
)

func TestDecodeConfigIsStrict(t *testing.T) {
	t.Parallel()
	type config struct {
		Freeze string `json:"freeze"`
		Teams  map[string]int
	}
	for raw, test := range map[string]struct {
		want    config
		refused string
	}{
		"":                                    {config{}, ""},
		"{}":                                  {config{}, ""},
		"null":                                {config{}, ""},
		`{"freeze":"sunday","teams":{"a":1}}`: {config{Freeze: "sunday", Teams: map[string]int{"a": 1}}, ""},
		`{"frieze":"sunday"}`:                 {config{}, `decode the config: json: unknown field "frieze"`},
		`{"freeze":5}`:                        {config{}, "decode the config: "},
		`{"freeze":"x"} {}`:                   {config{}, "there is more after its end"},
		`[]`:                                  {config{}, "decode the config: "},
		`{`:                                   {config{}, "decode the config: "},
	} {
		got, err := framework.DecodeConfig[config]([]byte(raw))
		require.Equal(t, test.want, got, raw)
		if test.refused == "" {
			require.NoError(t, err, raw)
		} else {
			require.ErrorContains(t, err, test.refused, raw)
		}
	}
}

func FuzzDecodeConfigGivesAllOrNothing(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte(`{"a":1}{"a":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := framework.DecodeConfig[struct{ A int }](raw)
		if err != nil {
			require.Zero(t, got)
		}
	})
}
