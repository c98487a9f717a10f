package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// listOf parses the output of "plugin get -o json" or "plugin info -o json".
func listOf(t *testing.T, out string) pluginstatus.List {
	t.Helper()
	var list pluginstatus.List
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Equal(t, "cleat.dev/v1", list.APIVersion)
	require.Equal(t, "PluginList", list.Kind)
	return list
}

func TestGetListsPluginsOfDirectory(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"kinds": clitest.KindsPlugin, "vendor/exits": clitest.MisbehavePlugin,
		"lists-nothing": clitest.MisbehavePlugin})
	out, err := plugin(t, dir, "get", "--no-built-ins")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^NAME +KIND +VERSION +STATUS +FROM$`, out)
	require.Regexp(t, `(?m)^example.io/mover +BackupItemAction +2 +in use +/plugins/kinds
example.io/mover +BackupItemAction +1 +not used +/plugins/kinds$`, out)
	require.Regexp(t, `(?m)^<none> +<none> +<none> +quarantined +/plugins/vendor/exits$`, out)
	require.Contains(t, out, "\nQuarantined:\n  /plugins/vendor/exits:\n    ")
	require.Contains(t, out, "cannot read /etc/plugin.yaml: no such file or directory", "the last words of the process")
	require.NotContains(t, out, "velero.io/pod")

	out, err = plugin(t, dir, "get", "-o", "wide")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^example.io/mover +BackupItemAction +1 .* 1\.2\.3 .*version 2 of the same name is used$`, out)
	require.Regexp(t, `(?m)^velero.io/pod +BackupItemAction +1 +in use +built-in `, out)
	require.Regexp(t, `(?m)/plugins/lists-nothing .* it lists no plugins$`, out)

	out, err = plugin(t, dir, "get", "-o", "json", "--kind", "backupitemaction", "--no-built-ins")
	require.NoError(t, err)
	list := listOf(t, out)
	require.Equal(t, "/plugins", list.Directory)
	require.Equal(t, []serverreport.Plugin{
		{
			Name: "example.io/mover", Kind: "BackupItemAction", Version: 2, Status: serverreport.InUse,
			Reason: "newest version that both know",
			File:   "/plugins/kinds", PluginVersion: "1.2.3", FrameworkVersion: list.Items[0].FrameworkVersion,
			Stock: list.Items[0].Stock,
		},
		{
			Name: "example.io/mover", Kind: "BackupItemAction", Version: 1, Status: serverreport.NotUsed,
			Reason: "version 2 of the same name is used",
			File:   "/plugins/kinds", PluginVersion: "1.2.3", FrameworkVersion: list.Items[0].FrameworkVersion,
			Stock: list.Items[1].Stock,
		},
	}, list.Items)
	require.NotContains(t, out, "sha256", "details are for info")

	out, err = plugin(t, dir, "get", "vendor/exits", "example.io/copier", "-o", "yaml")
	require.NoError(t, err)
	require.Contains(t, out, "kind: PluginList")
	require.Regexp(t, `(?s)AsyncBackupItemAction.*AsyncRestoreItemAction.*status: Quarantined`, out)

	out, err = plugin(t, dir, "get", "--kind", "BackupItemActionV2", "--no-built-ins")
	require.NoError(t, err)
	require.NotContains(t, out, "not used")
	require.NotContains(t, out, "Quarantined:")
}

func TestPluginCommandErrors(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"first": clitest.FirstPlugin})
	notExecutable := filepath.Join(t.TempDir(), "notes")
	require.NoError(t, os.WriteFile(notExecutable, []byte("x"), 0o600))
	for want, args := range map[string][]string{
		`there is no plugin "a.b/c"; there are: cleat.dev/dataupload, `: {"get", "--plugin-dir", dir, "a.b/c"},
		`there is no plugin of the kind ObjectStore "example.cleat.dev/mark"`: {"get",
			"--plugin-dir", dir, "example.cleat.dev/mark", "--kind", "ObjectStore"},
		`--kind "Store": there is no such kind; there are: AsyncBackupItemAction, `: {"get",
			"--plugin-dir", dir, "--kind", "Store"},
		`--output "xml": want table, wide, json or yaml`: {"get", "--plugin-dir", dir, "-o", "xml"},
		`--output "wide": want text, json or yaml`:       {"info", "--plugin-dir", dir, "velero.io/pod", "-o", "wide"},
		`look for plugins (name their directory with --plugin-dir): stat /no/such/directory`: {"get",
			"--plugin-dir", "/no/such/directory"},
		`there is no plugin "a.b/c"; "cleat plugin get --plugin-dir ` + dir + `" lists the existing ones`: {"info",
			"--plugin-dir", dir, "a.b/c"},
		`stat ./no-such-plugin: no such file or directory`:                      {"info", "./no-such-plugin"},
		`. is a directory; "cleat plugin get --plugin-dir ." lists its plugins`: {"info", "."},
		`is not a plugin: it is not executable (chmod +x `:                      {"info", notExecutable},
		`--order tries an order on a directory, so name it with --plugin-dir; a running server`: {"order",
			"--order", "a.b/c"},
		`order of plugins: "a.b/c" is listed twice`:        {"order", "--plugin-dir", dir, "--order", "a.b/c,a.b/c"},
		`to inspect a directory instead, use --plugin-dir`: {"get", "--kubeconfig", "/no/such/file"},
		`read the file that --config names`:                {"order", "--config", "/no/such/file"},
	} {
		_, err := executePlugin(t, append([]string{"plugin"}, args...)...)
		require.ErrorContains(t, err, want, args)
	}
}

func TestInfoOfPlugin(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"kinds": clitest.KindsPlugin, "exits": clitest.MisbehavePlugin})
	out, err := plugin(t, dir, "info", "example.io/mover")
	require.NoError(t, err)
	require.Regexp(t, `(?s)^From: +/plugins/kinds\nPlugin version: +1\.2\.3\n.*SHA-256: +[0-9a-f]{64}\n`, out)
	require.Regexp(t, `(?s)Version: +2\n  Status: +in use\n  Why: +newest version that both know\n  Applies to:\n.*Version: +1\n  Status: +not used\n`, out)

	out, err = plugin(t, dir, "info", "example.io/first-come")
	require.NoError(t, err)
	require.Contains(t, out, "  Config schema:\n    {\n      \"type\": \"object\",\n")

	out, err = plugin(t, dir, "info", "example.io/copier", "-o", "json")
	require.NoError(t, err)
	items := listOf(t, out).Items
	require.Len(t, items, 2)
	for _, item := range items {
		require.Equal(t, &serverreport.Selector{IncludedResources: []string{"persistentvolumeclaims"}}, item.AppliesTo,
			item.Kind)
	}

	out, err = plugin(t, dir, "info", "exits")
	require.NoError(t, err)
	require.Regexp(t, `(?s)Status: +quarantined\nWhy:\n  .*exit status 3.*\nWhat to do:\n  Repair the file, `, out)
}

func TestInfoOfSingleFile(t *testing.T) {
	t.Parallel()
	path := programs.Build(t, clitest.FirstPlugin)
	out, err := executePlugin(t, "plugin", "info", path)
	require.NoError(t, err)
	require.Contains(t, out, "BackupItemAction example.cleat.dev/mark:\n")
	require.Contains(t, out, "RestoreItemAction example.cleat.dev/unmark:\n")
	require.Regexp(t, `Resources: +configmaps, deployments.apps\n`, out)
	require.Regexp(t, `^From: +`+regexp.QuoteMeta(path)+`\n`, out)
	require.NotContains(t, out, "built-in")
}

func TestOrderOfActions(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"a/named-b": clitest.MisbehavePlugin,
		"a.first/named-c": clitest.MisbehavePlugin, "named-a": clitest.MisbehavePlugin, "kinds": clitest.KindsPlugin})
	order := func(args ...string) []pluginstatus.OrderedAction {
		t.Helper()
		out, err := plugin(t, dir, append([]string{"order", "--no-built-ins", "-o", "json"}, args...)...)
		require.NoError(t, err, out)
		var document pluginstatus.Order
		require.NoError(t, json.Unmarshal([]byte(out), &document))
		require.Equal(t, "PluginOrder", document.Kind)
		return document.Items
	}
	names := func(items []pluginstatus.OrderedAction, stage string) (names []string, stock []int) {
		for i, item := range items {
			if item.Stage == stage {
				names, stock = append(names, item.Name), append(stock, item.StockPlace)
				require.Equal(t, len(names), items[i].Place)
			}
		}
		return names, stock
	}
	stock := order()
	got, places := names(stock, "backup")
	require.Equal(t, []string{"example.io/named-b", "example.io/named-c", "example.io/mover", "example.io/named-a",
		"example.io/copier"}, got,
		"folders in their order, asynchronous actions last")
	require.Equal(t, []int{1, 2, 3, 4, 5}, places)

	tried := order("--order", "example.io/copier,example.io/named-a,*,example.io/named-b")
	got, places = names(tried, "backup")
	require.Equal(t, []string{"example.io/named-a", "example.io/named-c", "example.io/mover", "example.io/named-b",
		"example.io/copier"}, got)
	require.Equal(t, []int{4, 2, 3, 1, 5}, places)
	got, _ = names(tried, "restore")
	require.Equal(t, []string{"example.io/fetcher", "example.io/copier"}, got)
	got, _ = names(tried, "deletion")
	require.Equal(t, []string{"example.io/forget"}, got)
	got, _ = names(tried, "item blocks")
	require.Equal(t, []string{"example.io/shards"}, got)

	config := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\nplugins:\n  directory: "+dir+
		"\n  order: [example.io/named-a, '*', example.io/nobody]\n"), 0o600))
	out, err := executePlugin(t, "plugin", "order", "--config", config)
	require.NoError(t, err)
	require.Contains(t, out, "The order names example.io/nobody, but there is no such plugin.\n")
	require.Regexp(t, `(?m)^STAGE +PLACE +STOCK +NAME +KIND +FROM\n(item blocks .*\n)+backup +1 +\d+ +example.io/named-a +BackupItemAction +`, out)
	require.Regexp(t, `(?m)^backup +3 +2 +velero.io/crd-remap-version +BackupItemAction +built-in$`, out)
}
