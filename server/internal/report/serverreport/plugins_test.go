package serverreport_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func TestReportMatchesNameOrFile(t *testing.T) {
	t.Parallel()
	r := &serverreport.PluginReport{Directory: "/plugins", Plugins: []serverreport.Plugin{
		{Name: "velero.io/aws", File: "/plugins/vendor/aws"}, {Name: "a.b/c", File: "/plugins/c"}, {File: "/plugins/broken"},
		{Name: "x.y/z"},
	}}
	for text, want := range map[string][]int{
		"velero.io/aws": {0}, "aws": {0}, "vendor/aws": {0}, "/plugins/vendor/aws": {0}, "a.b/c": {1}, "c": {1},
		"broken": {2},
		"b":      nil, "": {0, 1, 2, 3}, ".": nil, "../plugins/c": {1},
	} {
		var got []int
		for i := range r.Plugins {
			if r.Matches(&r.Plugins[i], text) {
				got = append(got, i)
			}
		}
		require.Equal(t, want, got, text)
		require.Len(t, r.Only(text).Plugins, len(want))
	}
	require.Equal(t, []string{"velero.io/aws", "a.b/c", "x.y/z"}, r.Names())

	relative, below := r.Relative("/plugins/vendor/aws")
	require.True(t, below)
	require.Equal(t, "vendor/aws", relative)
	for _, outside := range []string{"/plugins", "/plugin/x", "/plugins/../x", "relative"} {
		_, below := r.Relative(outside)
		require.False(t, below, outside)
	}
}

func TestPluginReportSurvivesAnnotation(t *testing.T) {
	t.Parallel()
	want := &serverreport.PluginReport{
		Directory: "/plugins", Lock: "/plugins/plugins.lock", Order: []string{"a.b/c", "*"},
		Plugins: []serverreport.Plugin{{
			Name: "a.b/c", Kind: "BackupItemAction", Version: 2, Status: serverreport.InUse, Stock: 1,
			Process: &serverreport.Process{PID: 7},
			Details: &serverreport.Details{
				SHA256: "ab", Locked: true, ConfigSchema: json.RawMessage(`{"type":"object"}`), Problem: "p",
				AppliesTo: &serverreport.Selector{IncludedResources: []string{"pods"}, LabelSelector: "a=b"},
			},
		}},
	}
	text, err := want.Encode()
	require.NoError(t, err)
	got, err := serverreport.DecodePlugins(text)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = serverreport.DecodePlugins(strings.Replace(text, `"name"`, `"fromTheFuture":{},"name"`, 1))
	require.NoError(t, err, "a newer server may say more")
}

func TestPluginReportFitsIntoAnnotation(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 2000)
	for _, count := range []int{100, 3000} {
		r := &serverreport.PluginReport{Directory: "/plugins"}
		for i := range count {
			r.Plugins = append(r.Plugins, serverreport.Plugin{Name: fmt.Sprintf("a.b/%d", i), Status: serverreport.Quarantined,
				Reason: long})
		}
		text, err := r.Encode()
		require.NoError(t, err)
		require.Less(t, len(text), 230<<10, "an object has room for 256 KiB of annotations")
		got, err := serverreport.DecodePlugins(text)
		require.NoError(t, err)
		require.Equal(t, count, len(got.Plugins)+got.Omitted)
		require.Equal(t, count > 1000, got.Omitted > 0)
		require.Equal(t, strings.Repeat("é", 150)+"...", got.Plugins[0].Reason)
		require.Equal(t, long, r.Plugins[0].Reason, "the report itself is not changed")
	}
}

func TestDecodePluginsRefusesOtherText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "is not a report of plugins",
		"[]":                             "is not a report of plugins",
		`{"plugins":[{"name":"a.b/c"}]}`: "plugins[0] ( a.b/c) has no status",
		`{"plugins":[{"status":1}]}`:     "is not a report of plugins",
	} {
		_, err := serverreport.DecodePlugins(text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "annotation cleat.dev/plugins", text)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"plugins":[{"name":"a.b/c","status":"InUse","process":{"pid":1},"configSchema":{"a":1}}]}`)
	f.Add(`{"plugins":null,"omitted":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := serverreport.DecodePlugins(text)
		if err != nil {
			return
		}
		again, err := r.Encode()
		require.NoError(t, err)
		_, err = serverreport.DecodePlugins(again)
		require.NoError(t, err)
	})
}
