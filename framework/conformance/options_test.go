package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

func TestParseConfigOfACommandLine(t *testing.T) {
	t.Parallel()
	o := newOptions(nil)
	for _, text := range []string{
		"bucket=a", "example.io/store:bucket=b", "example.io/store:url=http://x:1/y=z", "count=3", "on=true",
		"ObjectStore:class=cold", "VolumeSnapshotter/example.io/store:bucket=c",
	} {
		option, err := ParseConfig(text)
		require.NoError(t, err)
		option(o)
	}
	configOf := func(kind, name string) map[string]string {
		return (&suite.Subject{Suite: &suite.Suite{Options: &o.Options}, Kind: kind, Name: name}).Config()
	}
	require.Equal(t, map[string]string{"bucket": "b", "url": "http://x:1/y=z", "count": "3", "on": "true",
		"class": "cold"},
		configOf("ObjectStore", "example.io/store"))
	require.Equal(t, map[string]string{"bucket": "c", "url": "http://x:1/y=z", "count": "3", "on": "true"},
		configOf("VolumeSnapshotter", "example.io/store"))
	policy := &suite.Subject{Suite: &suite.Suite{Options: &o.Options}, Kind: "QueueAdmission", Name: "example.io/other"}
	config, given, err := policy.PolicyConfig()
	require.NoError(t, err)
	require.True(t, given)
	require.JSONEq(t, `{"bucket":"a","count":3,"on":true}`, string(config))
	for _, text := range []string{"", "bucket", "=x", "example.io/store:=x", "ObjectStore:=x"} {
		_, err := ParseConfig(text)
		require.ErrorContains(t, err, "must be KEY=VALUE", text)
	}
}
