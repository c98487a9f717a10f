package plugins_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

func TestPluginCommandsOfRunningServer(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	dir := t.TempDir()
	programs.Copy(t, "framework/testdata/kinds", filepath.Join(dir, "kinds"))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho there is no configuration >&2\nexit 4\n"), 0o755))
	config := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\nplugins:\n  order: [example.io/mover, "+
		"'*']\n"), 0o600))
	s.Serve("--plugin-dir", dir, "--config", config)

	table, note, err := s.Run("plugin", "get", "--timeout", "2m")
	require.NoError(t, err, note)
	require.Empty(t, note)
	require.Regexp(t, `(?m)^example.io/mover +BackupItemAction +2 +in use +`+filepath.Join(dir, "kinds")+`$`, table)
	require.Regexp(t, `(?m)^example.io/mover +BackupItemAction +1 +not used `, table)
	require.Regexp(t, `(?m)^velero.io/pod +BackupItemAction +1 +in use +built-in$`, table)
	require.Regexp(t, `(?m)^<none> +<none> +<none> +quarantined +`+broken+`$`, table)
	require.Regexp(t, `(?s)\nQuarantined:\n  `+broken+`:\n    .*exit status 4.*there is no configuration`, table)

	wide := s.Must("plugin", "get", "--kind", "BackupItemAction", "-o", "wide")
	require.Regexp(t, `(?m)^example.io/mover +BackupItemAction +2 .* 1\.2\.3 +\S+ +\d+ +\d+ +\d+ +0 +(\d+ MiB|<none>) +newest version that both know$`, wide)

	info := s.Must("plugin", "info", "example.io/first-come")
	require.Regexp(t, `Process: +pid \d+, 0 restarts`, info)
	require.Regexp(t, `SHA-256: +[0-9a-f]{64}\n`, info)
	require.Contains(t, info, "  Config schema:\n    {\n")
	require.Regexp(t, `(?s)Applies to:\n.*Resources: +pods\n`, s.Must("plugin", "info", "example.io/mover"))
	require.Contains(t, s.Must("plugin", "info", "broken"), "there is no configuration")

	var order struct {
		Order []string
		Items []struct {
			Stage, Name       string
			Place, StockPlace int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(s.Must("plugin", "order", "-o", "json")), &order))
	require.Equal(t, []string{"example.io/mover", "*"}, order.Order)
	for _, item := range order.Items {
		if item.Stage == "backup" && item.Place == 1 {
			require.Equal(t, "example.io/mover", item.Name)
			require.Greater(t, item.StockPlace, 1, "built-ins would come first")
		}
	}

	require.Equal(t, 6, s.RunPage(t, "plugins", "Manage plugins", dir))
	require.Equal(t, 3, s.RunPage(t, "plugins", "Lock plugins", dir))

	// Velero's client reads the status and ignores the rest.
	request := &velerov1.ServerStatusRequest{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
		GenerateName: "velero-cli-"}}
	require.NoError(t, s.Client.Create(t.Context(), request))
	s.Eventually("the request is answered", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.ServerStatusRequestPhaseProcessed, err
	})
	require.Contains(t, request.Status.Plugins, velerov1.PluginInfo{Name: "example.io/mover", Kind: "BackupItemActionV2"})
	require.Contains(t, request.Status.Plugins, velerov1.PluginInfo{Name: "example.io/mover", Kind: "BackupItemAction"})
	require.NotContains(t, request.Annotations["cleat.dev/plugins"], "configSchema",
		"details are for those who ask for them")
}

func TestPluginCommandsOfVelerosServer(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	answered := make(chan error, 1)
	answer := func() {
		answered <- s.AnswerAsVelero(t.Context(), "v1.17.1",
			velerov1.PluginInfo{Name: "velero.io/aws", Kind: "ObjectStore"}, velerov1.PluginInfo{Name: "velero.io/csi",
				Kind: "BackupItemActionV2"})
	}
	go answer()
	table, note, err := s.Run("plugin", "get", "--timeout", "2m")
	require.NoError(t, err, note)
	require.NoError(t, <-answered)
	require.Regexp(t, `(?m)^velero.io/csi +BackupItemAction +2 +<unknown> +<unknown>
velero.io/aws +ObjectStore +1 +<unknown> +<unknown>$`, table)
	require.Contains(t, note, "The server (v1.17.1) reports only names and kinds of its plugins")

	go answer()
	_, note, err = s.Run("plugin", "order", "--timeout", "2m")
	require.Error(t, err)
	require.NoError(t, <-answered)
	require.Contains(t, note, "this server does not report the order of its plugins; inspect its directory with "+
		"--plugin-dir")
}

func TestServerRunsOnlyLockedFiles(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	dir := t.TempDir()
	first, kinds := filepath.Join(dir, "first"), filepath.Join(dir, "vendor", "kinds")
	programs.Copy(t, "examples/first-plugin", first)
	programs.Copy(t, "framework/testdata/kinds", kinds)
	s.Must("plugin", "lock", "--plugin-dir", dir)
	s.Must("plugin", "verify", "--plugin-dir", dir)
	file, err := os.OpenFile(first, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = file.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	_, _, err = s.Run("plugin", "verify", "--plugin-dir", dir)
	require.Error(t, err)
	config := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\nplugins:\n  lock: required\n"), 0o600))
	s.Serve("--plugin-dir", dir, "--config", config)

	table := s.Must("plugin", "get", "--timeout", "2m")
	require.Regexp(t, `(?m)^<none> +<none> +<none> +quarantined +`+first+`$`, table)
	require.Regexp(t, `(?s)\nQuarantined:\n  `+first+
		`:\n    .*its sha256 sum is .*the file has changed; .*"cleat plugin lock"`, table)
	require.NotContains(t, table, "example.cleat.dev/mark")
	require.Regexp(t, `Lock: +contained in `+filepath.Join(dir, "plugins.lock")+`\n`,
		s.Must("plugin", "info", "example.io/mover"))
	require.Regexp(t, `Lock: +not contained in .* with this sum\n`, s.Must("plugin", "info", "first"))

	s.Must("plugin", "lock", "--plugin-dir", dir)
	for until := time.Now().Add(5 * time.Minute); strings.Contains(table, "quarantined"); table = s.Must("plugin", "get",
		"--timeout", "2m") {
		require.True(t, time.Now().Before(until), "the running server follows the new lock: %s", table)
	}
	require.Contains(t, table, "example.cleat.dev/mark")
	require.Regexp(t, `Lock: +contained in `+filepath.Join(dir, "plugins.lock")+`\n`, s.Must("plugin", "info", "first"))
}
