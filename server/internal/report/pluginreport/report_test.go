package pluginreport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/report/pluginreport"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func TestPluginsHaveStatusAndReason(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entry pluginhost.Entry
		want  serverreport.Plugin
	}{
		"in use": {
			pluginhost.Entry{
				Name: "a.b/c", Kind: "BackupItemActionV2", Version: 2, Command: "/plugins/c", Used: true, Choice: "newest",
				Note: "old", Stock: 3,
				PluginVersion: "1", FrameworkVersion: "2", ConfigSchema: []byte(`{}`), Process: process.Process{PID: 7, Restarts: 1,
					ResidentBytes: 9},
			},
			serverreport.Plugin{
				Name: "a.b/c", Kind: "BackupItemAction", Version: 2, Status: serverreport.InUse, Reason: "newest", Note: "old",
				File: "/plugins/c", Stock: 3,
				PluginVersion: "1", FrameworkVersion: "2", Process: &serverreport.Process{PID: 7, Restarts: 1, ResidentBytes: 9},
			},
		},
		"a policy that decides": {
			pluginhost.Entry{Name: "a.b/chosen", Kind: "QueueAdmission", Version: 1, Used: true, Choice: "newest"},
			serverreport.Plugin{Name: "a.b/chosen", Kind: "QueueAdmission", Version: 1, Status: serverreport.InUse,
				Reason: "newest"},
		},
		"another policy": {
			pluginhost.Entry{Name: "a.b/other", Kind: "QueueAdmission", Version: 1, Used: true, Choice: "newest"},
			serverreport.Plugin{
				Name: "a.b/other", Kind: "QueueAdmission", Version: 1, Status: serverreport.Available,
				Reason: "the configuration names another QueueAdmission: a.b/chosen",
			},
		},
		"a store of two locations": {
			pluginhost.Entry{
				Name: "a.b/c", Kind: "ObjectStore", Version: 1, Used: true, Choice: "newest", Process: process.Process{PID: 7},
				Locations: []pluginhost.Location{{Name: "velero/a", Process: process.Process{PID: 8, Restarts: 2}},
					{Name: "velero/b"}},
			},
			serverreport.Plugin{
				Name: "a.b/c", Kind: "ObjectStore", Version: 1, Status: serverreport.InUse, Reason: "newest",
				Process: &serverreport.Process{PID: 7},
				Locations: []serverreport.Location{{Name: "velero/a", Process: &serverreport.Process{PID: 8, Restarts: 2}},
					{Name: "velero/b"}},
			},
		},
		"a store of no location": {
			pluginhost.Entry{Name: "a.b/c", Kind: "ObjectStore", Version: 1, Used: true, Choice: "newest"},
			serverreport.Plugin{
				Name: "a.b/c", Kind: "ObjectStore", Version: 1, Status: serverreport.Available,
				Reason: "it is called for locations that name it as their provider, and none does",
			},
		},
		"of a kind that nothing calls": {
			pluginhost.Entry{Name: "a.b/c", Kind: "VolumeSnapshotter", Version: 1, Used: true, Choice: "newest"},
			serverreport.Plugin{
				Name: "a.b/c", Kind: "VolumeSnapshotter", Version: 1, Status: serverreport.Available,
				Reason: "this server does not call plugins of the kind VolumeSnapshotter yet",
			},
		},
		"of a version that the server does not know": {
			pluginhost.Entry{Name: "a.b/c", Kind: "ObjectStoreV9", Choice: "this server knows version 1 of ObjectStore, not 9",
				BuiltIn: true},
			serverreport.Plugin{
				Name: "a.b/c", Kind: "ObjectStore", Version: 9, Status: serverreport.NotUsed, BuiltIn: true,
				Reason: "this server knows version 1 of ObjectStore, not 9",
			},
		},
		"quarantined": {
			pluginhost.Entry{Command: "/plugins/c", Quarantined: "it does not start"},
			serverreport.Plugin{Status: serverreport.Quarantined, Reason: "it does not start", File: "/plugins/c"},
		},
		"a file without plugins": {
			pluginhost.Entry{Command: "/plugins/c", Note: "it lists no plugins"},
			serverreport.Plugin{Status: serverreport.NotUsed, Reason: "it lists no plugins", File: "/plugins/c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := map[string][]string{"QueueAdmission": {"a.b/chosen"}}
			require.Equal(t, []serverreport.Plugin{test.want}, pluginreport.Plugins([]pluginhost.Entry{test.entry}, policies))
		})
	}
}
