package app

import (
	"reflect"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/hostenv"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// The example configuration has all settings.
func TestHostConfigHasEverySetting(t *testing.T) {
	t.Parallel()
	file, err := config.ReadFile("../../examples/config/cleat.yaml")
	require.NoError(t, err)
	host := HostConfig(Config{File: file, Log: hclog.NewNullLogger()})
	require.Equal(t, file.Plugins.Order, host.Order)
	require.Equal(t, map[string]int{"example.io/last": 1}, host.Concurrency)
	require.Equal(t, file.Plugins.Rescan.Std(), host.Rescan)
	require.Equal(t, []string{"EXAMPLE_ENDPOINT=https://storage.example.io"}, host.Environment)
	require.Equal(t, hostenv.Complete, host.EnvironmentRule)
	require.Equal(t, map[string][]byte{"example.io/stamp": []byte(`{"zone":"UTC"}`)}, host.Configs)
	requireAlike(t, reflect.ValueOf(file.Plugins.Deadlines), reflect.ValueOf(host.Deadlines))
	requireAlike(t, reflect.ValueOf(file.Plugins.Limits), reflect.ValueOf(host.Limits))
	requireAlike(t, reflect.ValueOf(file.Plugins.Restart), reflect.ValueOf(host.Restart))
}

// requireAlike requires that every field of one struct has its value in the field of that name of the other.
func requireAlike(t *testing.T, from, to reflect.Value) {
	t.Helper()
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		field := to.FieldByName(name)
		require.True(t, field.IsValid(), name)
		require.False(t, field.IsZero(), name)
		if field.Kind() != reflect.Map {
			require.EqualValues(t, from.Field(i).Interface(), field.Interface(), name)
			continue
		}
		require.Equal(t, from.Field(i).Len(), field.Len(), name)
		for _, key := range field.MapKeys() {
			require.EqualValues(t, from.Field(i).MapIndex(key).Interface(), field.MapIndex(key).Interface(), name)
		}
	}
}

func TestHostConfigHasDefaultsWithoutAFile(t *testing.T) {
	t.Parallel()
	options := config.Defaults()
	host := HostConfig(Config{Options: options, File: &config.File{}, Log: hclog.NewNullLogger()})
	require.Equal(t, options.PluginDir, host.Dir)
	require.Zero(t, host.Deadlines)
	require.Zero(t, host.Limits)
	require.Zero(t, host.Restart.Threshold)
	require.Empty(t, host.Environment)
}
