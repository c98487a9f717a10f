package location_test

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/plugins/sealed"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// TestStoreInFrontOfAnother opens a store in front of one that runs in a process of its own.
func TestStoreInFrontOfAnother(t *testing.T) {
	t.Parallel()
	plugins, err := buildPlugin()
	require.NoError(t, err)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	for name, isolate := range map[string]bool{"in process": false, "isolated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := pluginhost.Config{Dir: plugins, Log: hclog.NewNullLogger(),
				BuiltIns: []framework.Registration{filestore.Register(), sealed.Register()}}
			if isolate {
				config.Isolate, config.Self = true, programs.Build(t, "server/cmd/cleat")
			}
			host, err := pluginhost.New(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(host.Close)
			scratch, err := os.MkdirTemp("", "front") // the path of a socket must be short
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(scratch)) })
			opener := location.NewOpener(secrets{"keys": {"identities": []byte(identity.String())}},
				location.PluginHost{Host: host}, scratch, hclog.NewNullLogger())
			root := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
			bsl := &velerov1.BackupStorageLocation{}
			bsl.Namespace, bsl.Name = "ns", "default"
			bsl.Spec.Provider, bsl.Spec.ObjectStorage = sealed.Name, &velerov1.ObjectStorageLocation{Bucket: "bucket",
				Prefix: "p"}
			bsl.Spec.Config = map[string]string{"store": "example.io/sound", "path": root, "secret": "keys/identities",
				"recipients": identity.Recipient().String()}

			opened, err := opener.Open(t.Context(), bsl)
			require.NoError(t, err)
			content := strings.Repeat("a log of a backup ", 10_000)
			require.NoError(t, opened.PutBackupLog(t.Context(), "b", strings.NewReader(content)))
			stored, err := os.ReadFile(filepath.Join(root, "bucket", "p", "backups", "b", "b-logs.gz"))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(stored), "age-encryption.org/v1\n"))
			log := store.File{DownloadTarget: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupLog, Name: "b"}}
			body, err := opened.Download(t.Context(), log)
			require.NoError(t, err)
			read, err := io.ReadAll(body)
			require.NoError(t, err)
			require.Equal(t, content, string(read))
			body, err = opened.Download(hostapi.WithRange(t.Context(), hostapi.Range{Offset: -7}), log)
			require.NoError(t, err)
			require.Equal(t, &hostapi.Part{Offset: int64(len(content)) - 7, Size: int64(len(content))},
				objectstore.PartOf(body))
			read, err = io.ReadAll(body)
			require.NoError(t, err)
			require.Equal(t, "backup ", string(read))
			_, err = opened.SignedURL(t.Context(), log, 1)
			require.ErrorContains(t, err, "the object is sealed, and cannot be read from a URL of the bucket")
			require.NotErrorIs(t, err, versioning.ErrUnavailable)
			err = opened.PutBackupLog(t.Context(), "b", io.NewSectionReader(broken{}, 0, 5))
			require.ErrorContains(t, err, io.ErrNoProgress.Error())
			again, err := opener.Open(t.Context(), bsl)
			require.NoError(t, err)
			body, err = again.Download(t.Context(), log)
			require.NoError(t, err)
			read, err = io.ReadAll(body)
			require.NoError(t, err)
			require.Equal(t, content, string(read), "an upload that fails changes nothing")
			sockets, err := filepath.Glob(filepath.Join(scratch, "*.sock"))
			require.NoError(t, err)
			require.Len(t, sockets, 1, "it is the same store behind")

			provider, moved, err := opener.Config(t.Context(), bsl)
			require.NoError(t, err)
			require.Equal(t, "example.io/sound", provider)
			require.Equal(t, map[string]string{"path": root, "bucket": "bucket", "prefix": "p"}, moved)

			for name, test := range map[string]struct {
				change map[string]string
				want   string
			}{
				"no store":       {map[string]string{"store": ""}, "spec.config.store is missing"},
				"unknown store":  {map[string]string{"store": "example.io/none"}, `the store behind cleat.dev/sealed: unk`},
				"itself":         {map[string]string{"store": sealed.Name}, "which stands in front of another store itself"},
				"its own server": {map[string]string{"behind": "unix:///x"}, "spec.config.behind must not be set"},
				"wrong key":      {map[string]string{"region": "x"}, `ObjectStore(example.io/sound): config: unknown key "region"`},
				"no Secret":      {map[string]string{"secret": "none/i"}, "spec.config.secret: there is no Secret ns/none"},
				"no name":        {map[string]string{"secret": "identities"}, `spec.config.secret is "identities", want NAME/KEY`},
				"two of them":    {map[string]string{"secretFile": "/x"}, "spec.config has secret and secretFile"},
				"no keys":        {map[string]string{"secret": ""}, "ObjectStore(cleat.dev/sealed): config: secret: it is missing"},
				"no recipients":  {map[string]string{"recipients": "age1"}, `recipients: number 1 is "age1", want a public`},
			} {
				changed := bsl.DeepCopy()
				maps.Copy(changed.Spec.Config, test.change)
				_, err := opener.Open(t.Context(), changed)
				require.ErrorContains(t, err, test.want, name)
				require.NotContains(t, err.Error(), identity.String(), name)
			}
			require.NoError(t, opener.Release("ns", "default"))
			require.NoError(t, opener.Close())
			left, err := os.ReadDir(scratch)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// broken is a file that cannot be read.
type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, io.ErrNoProgress }
