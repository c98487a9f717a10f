package pluginstatus

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func somePlugins() []serverreport.Plugin {
	process := &serverreport.Process{PID: 17, Restarts: 2, ResidentBytes: 23 << 20}
	return []serverreport.Plugin{
		{
			Name: "example.io/mover", Kind: "BackupItemAction", Version: 2, Status: serverreport.InUse,
			Reason: "newest version that both know",
			Note:   "it will be removed in v2, use version 3", File: "/plugins/mover", PluginVersion: "1.2 (blue)",
			FrameworkVersion: "v0.3.0", Process: process, Calls: 1200, Errors: 3,
		},
		{
			Name: "example.io/mover", Kind: "BackupItemAction", Version: 1, Status: serverreport.NotUsed,
			Reason: "version 2 of the same name is used",
			File:   "/plugins/mover", PluginVersion: "1.2 (blue)", FrameworkVersion: "v0.3.0", Process: process,
		},
		{Name: "velero.io/pod", Kind: "BackupItemAction", Version: 1, Status: serverreport.InUse,
			Reason: "newest version that both know", BuiltIn: true, File: "/cleat"},
		{Name: "a.b/\x1b[31mred", Kind: "Foo", Version: 3, Status: serverreport.Quarantined, Reason: "bad name",
			File: "/plugins/red"},
		{Status: serverreport.Quarantined, Reason: "it died:\n\tpanic: \x1b[2Jno\u00a0configuration",
			File: "/plugins/broken"},
		{Status: serverreport.NotUsed, Reason: "it lists no plugins", File: "/plugins/empty"},
		{Name: "velero.io/aws", Kind: "ObjectStore", Version: 1, Status: serverreport.Unknown},
	}
}

func someDetails() *serverreport.Details {
	return &serverreport.Details{
		SHA256: "e3b0c442", Locked: true, Roles: []string{"csi", "claim-snapshots"}, ConfigSchema: json.RawMessage(
			`{"type":"object","properties":{"a":{"type":"string"}}}`,
		), Problem: "one\ntwo",
		AppliesTo: &serverreport.Selector{IncludedNamespaces: []string{"shop"},
			IncludedResources: []string{"pods", "deployments.apps"}, LabelSelector: "app=web"},
	}
}

func TestPluginTable(t *testing.T) {
	t.Parallel()
	for name, wide := range map[string]bool{"plugins.txt": false, "plugins_wide.txt": true} {
		statustest.Golden(t, name, func(w io.Writer) error {
			if err := Table(somePlugins(), wide).Print(w); err != nil {
				return err
			}
			d := layout.NewDescription(w)
			PrintQuarantined(d, somePlugins())
			return d.Err()
		})
	}
}

func TestPluginDocument(t *testing.T) {
	t.Parallel()
	list := List{status.APIVersion, "PluginList", "/plugins", "/plugins/plugins.lock", []string{"example.io/mover", "*"},
		somePlugins(), nil, nil}
	list.Items[0].Details = someDetails()
	statustest.Golden(t, "plugins.json", func(w io.Writer) error { return layout.PrintJSON(w, list) })
	statustest.Golden(t, "plugins.yaml", func(w io.Writer) error { return layout.PrintYAML(w, list) })
}

func TestPluginInfoText(t *testing.T) {
	t.Parallel()
	report := &serverreport.PluginReport{Directory: "/plugins", Lock: "/plugins/plugins.lock", Plugins: somePlugins()}
	report.Plugins[0].Details = someDetails()
	statustest.Golden(t, "plugin_info.txt", func(w io.Writer) error {
		d := layout.NewDescription(w)
		PrintDetails(d, report)
		return d.Err()
	})
}

func TestLockAndVerifyTables(t *testing.T) {
	t.Parallel()
	statustest.Golden(t, "plugin_lock.txt", func(w io.Writer) error {
		return (&LockChanges{
			Lock: "/plugins/plugins.lock", Files: 2, Written: true,
			Changes: []LockChange{
				{"added", "a", "provides ObjectStore a.b/c"}, {"changed", "vendor/b",
					"other content; also provides ObjectStore a.b/\x1b[31md"}, {"removed", "c", ""},
			},
			Broken:  []FileProblem{{"d", "it died:\nexit status 3"}},
			Partial: []FileProblem{{"a", "ObjectStore a.b/c is offered twice"}},
		}).Print(w)
	})
	statustest.Golden(t, "plugin_verify.txt", func(w io.Writer) error {
		return (&Verification{Files: []VerifiedFile{
			{"a", FileOK, "", FileOK.ToDo()}, {"vendor/b", FileChanged, "it has another sum", FileChanged.ToDo()},
			{"c", FileMissing, "it is not there", FileMissing.ToDo()}, {"d", FileNotLocked, "it is not in the lock",
				FileNotLocked.ToDo()},
			{"e", FileQuarantined, "it died:\nexit status 3", FileQuarantined.ToDo()},
		}}).Print(w)
	})
}
