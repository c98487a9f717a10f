package store_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// FuzzFiles decodes any files of a bucket. An error is one of the content, and there is no element that is nil.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{`[null]`, `null`, `{}`, `{"metadata":{"uid":"a"},"status":{},"status":null}`,
		`[{"spec":{},"status":{}}]`, `{"v1/Pod":["a/b"]}`} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, content []byte, zip bool) {
		metadata := content
		if zip {
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, err := w.Write(content)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			content = out.Bytes()
		}
		objects := newMemory()
		for _, key := range []string{"b-resource-list.json.gz", "b-volumeinfo.json.gz", "b-podvolumebackups.json.gz"} {
			objects.set("backups/b/"+key, string(content))
		}
		objects.set("backups/b/velero-backup.json", string(metadata))
		s := store.New(objects, "bucket", "")
		_, err := store.DecodeJSON[map[string][]string](t.Context(), s, velerov1.DownloadTargetKindBackupResourceList, "b")
		isDamage(t, err)
		list, err := store.DecodeList[[]*velerov1.Backup](t.Context(), s, velerov1.DownloadTargetKindBackupVolumeInfos, "b")
		isDamage(t, err)
		require.NotContains(t, list, (*velerov1.Backup)(nil))
		for one, err := range store.PodVolumeBackups[*velerov1.PodVolumeBackup](t.Context(), s, "b") {
			isDamage(t, err)
			require.True(t, err != nil || one != nil)
		}
		_, err = s.BackupUID(t.Context(), "b")
		isDamage(t, err)
	})
}

func isDamage(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		require.ErrorIs(t, err, store.ErrDamaged)
	}
}
