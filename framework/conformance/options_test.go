package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseConfigOfACommandLine(t *testing.T) {
	t.Parallel()
	o := newOptions(nil)
	for _, text := range []string{"bucket=a", "example.io/store:bucket=b", "example.io/store:url=http://x:1/y=z", "count=3", "on=true"} {
		option, err := ParseConfig(text)
		require.NoError(t, err)
		option(o)
	}
	require.Equal(t, map[string]string{"bucket": "b", "url": "http://x:1/y=z", "count": "3", "on": "true"}, o.configOf("example.io/store"))
	config, given, err := o.policyConfig("example.io/other")
	require.NoError(t, err)
	require.True(t, given)
	require.JSONEq(t, `{"bucket":"a","count":3,"on":true}`, string(config))
	for _, text := range []string{"", "bucket", "=x", "example.io/store:=x"} {
		_, err := ParseConfig(text)
		require.ErrorContains(t, err, "must be KEY=VALUE", text)
	}
}
