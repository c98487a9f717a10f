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
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
)

const tape = "velero.io/stock-tape"

// newTapeSite is newSite with an object store that Velero tolerates. A variable of the server's environment names the
// directory of its objects.
func newTapeSite(t *testing.T) (s *site.Site, plugins string) {
	t.Helper()
	s = site.New(t, tape)
	plugins = t.TempDir()
	_, err := stockplugins.Build(stockplugins.Tape, plugins)
	require.NoError(t, err)
	root := t.TempDir()
	s.Environment = append(s.Environment, "TAPE_ROOT="+root)
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.Client.Get(t.Context(), s.Key("default"), &location))
	location.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Second}
	require.NoError(t, s.Client.Update(t.Context(), &location))
	s.BucketDir = filepath.Join(root, location.Spec.ObjectStorage.Bucket)
	return s, plugins
}

// TestAcceptPlugins_StoreOfVendor runs a store like those of vendors: configured by a variable of the environment,
// listing bare names of folders, without signed URLs.
func TestAcceptPlugins_StoreOfVendor(t *testing.T) {
	t.Parallel()
	t.Run("as in Velero", func(t *testing.T) { t.Parallel(); tapeAsInVelero(t) })
	t.Run("Strict", func(t *testing.T) { t.Parallel(); tapeStrict(t) })
}

func tapeAsInVelero(t *testing.T) {
	s, plugins := newTapeSite(t)
	server := s.Serve("--plugin-dir", plugins)
	s.Available()
	shop := s.Workload(3)
	out, progress, err := s.Run("backup", "create", "first", "--include-namespaces", shop, "--wait")
	require.NoError(t, err, "%s%s", out, progress)

	// The variable has reached the plugin: the backup is in the directory of the operator.
	require.Contains(t, s.Files("backups/first"), "velero-backup.json")
	require.Regexp(t, `Environment: +Complete(, withheld are .*)?\n`, s.Must("plugin", "info", tape))

	// The location stays available now that there is something to list.
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.Client.Get(t.Context(), s.Key("default"), &location))
	seen := location.Status.LastValidationTime.Time
	s.Eventually("the location was validated again", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("default"), &location)
		return location.Status.LastValidationTime.After(seen), err
	})
	require.Equal(t, velerov1.BackupStorageLocationPhaseAvailable, location.Status.Phase, location.Status.Message)
	require.Equal(t, 1, strings.Count(server.Log.String(), "behaves unlike others; the location works"), "a warning, once")

	requireTapeInUse(s)

	// Velero's client and this one get the reason at once why there is no URL.
	request := &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "d"},
		Spec: velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupLog,
			Name: "first"}},
	}
	require.NoError(t, s.Client.Create(t.Context(), request))
	s.Eventually("the request is answered", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.DownloadURL != "", err
	})
	require.Contains(t, request.Status.DownloadURL, "a tape has no URLs")
	_, problem, err := s.Run("backup", "logs", "first")
	require.Error(t, err)
	require.Contains(t, problem, "a tape has no URLs")
	require.Contains(t, problem, "--download-url")

	// With an address the server offers the file itself.
	require.NoError(t, server.Stop())
	address := site.FreeAddress(t)
	s.Serve("--plugin-dir", plugins, "--download-address", address, "--download-url", "http://"+address+"/files")
	require.Regexp(t, `msg="backup started" (.* )?backup=`+s.Namespace+`/first`, s.Must("backup", "logs", "first"))
	require.Contains(t, s.Must("backup", "describe", "first", "--details"), "- "+shop+"/item-a\n")
}

// requireTapeInUse checks that "plugin get" shows which plugins the server calls and which it does not.
func requireTapeInUse(s *site.Site) {
	s.T.Helper()
	var list pluginstatus.List
	require.NoError(s.T, json.Unmarshal([]byte(s.Must("plugin", "get", "-o", "json")), &list))
	status := map[string]serverreport.PluginStatus{}
	for i := range list.Items {
		p := &list.Items[i]
		status[p.Kind+" "+p.Name] = p.Status
		if p.Name != tape {
			continue
		}
		require.Len(s.T, p.Locations, 1)
		require.Equal(s.T, s.Namespace+"/default", p.Locations[0].Name)
		require.Regexp(s.T, `Locations:\n +`+p.Locations[0].Name+`: +(pid \d+, 0 restarts, memory |no process between its calls)`,
			s.Must("plugin", "info", tape))
	}
	for plugin, want := range map[string]serverreport.PluginStatus{
		"ObjectStore " + tape:                        serverreport.InUse,
		"ObjectStore cleat.dev/s3":                   serverreport.Available,
		"QueueAdmission cleat.dev/namespace-overlap": serverreport.InUse,
		"QueueAdmission cleat.dev/fifo":              serverreport.Available,
		"ManifestWriter cleat.dev/item-list":         serverreport.Available,
		"BackupItemAction velero.io/pod":             serverreport.InUse,
	} {
		require.Equal(s.T, want, status[plugin], plugin)
	}
}

func tapeStrict(t *testing.T) {
	s, plugins := newTapeSite(t)
	elsewhere := t.TempDir()
	s.Environment = append(s.Environment, "TMPDIR="+elsewhere) // the directory of the plugin without its variable
	config := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\nplugins: {environment: Strict}\n"), 0o600))
	server := s.Serve("--plugin-dir", plugins, "--config", config)
	s.Available()
	shop := s.Workload(1)
	s.Must("backup", "create", "first", "--include-namespaces", shop, "--wait")
	require.Empty(t, s.Files("backups/first"))
	require.FileExists(t, filepath.Join(elsewhere, "tape", filepath.Base(s.BucketDir), "backups", "first",
		"velero-backup.json"))
	require.Regexp(t, `Environment: +Strict, withheld are .*\bTAPE_ROOT\b`, s.Must("plugin", "info", tape))
	require.Equal(t, 1, strings.Count(server.Log.String(), "are withheld from plugins"))
	require.Contains(t, server.Log.String(), "TAPE_ROOT")
}
