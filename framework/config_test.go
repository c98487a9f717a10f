package framework_test

import (
	"fmt"
	"sync"
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
		`{"frieze":"sunday"}`:                 {config{}, `decode the config: unknown key "frieze"`},
		`{"freeze":5}`:                        {config{}, `decode the config: key "freeze": want a string, got number`},
		`{"teams":{"a":"x"}}`:                 {config{}, `key "Teams": want a whole number in the range of int, got string`},
		`{"teams":[]}`:                        {config{}, `key "Teams": want an object, got array`},
		`{"freeze":"x"}]`:                     {config{}, "there is more after its end"},
		`{"freeze":"x"} {}`:                   {config{}, "there is more after its end"},
		`[]`:                                  {config{}, "decode the config: want an object, got array"},
		`{`:                                   {config{}, "it ends too early"},
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

func TestConfigIsDecodedOncePerChange(t *testing.T) {
	t.Parallel()
	var cache framework.Config[map[string]int]
	first, err := cache.Decode([]byte(`{"a":1}`))
	require.NoError(t, err)
	again, err := cache.Decode([]byte(`{"a":1}`))
	require.NoError(t, err)
	first["b"] = 2
	require.Equal(t, first, again, "it is the same map")

	_, err = cache.Decode([]byte(`{"a":"x"}`))
	require.ErrorContains(t, err, "want a whole number")
	changed, err := cache.Decode([]byte(`{"a":1}`))
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1}, changed)
	none, err := cache.Decode(nil)
	require.NoError(t, err)
	require.Empty(t, none)

	var calls sync.WaitGroup
	for i := range 32 {
		calls.Go(func() {
			got, err := cache.Decode([]byte(fmt.Sprintf(`{"a":%d}`, i%2)))
			if err != nil || got["a"] != i%2 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	calls.Wait()
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
