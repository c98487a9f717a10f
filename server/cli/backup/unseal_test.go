package backup

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArchivesOfOthersAreRefused unpacks what a server must not send.
func TestArchivesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entries []string
		cut     int64
		want    string
	}{
		"whole":        {[]string{"backups/b/b.tar.gz", "backups/b/velero-backup.json"}, 0, ""},
		"cut":          {[]string{"backups/b/b.tar.gz", "backups/b/velero-backup.json"}, 30, "sent no archive of its files"},
		"no metadata":  {[]string{"backups/b/b.tar.gz"}, 0, "has no velero-backup.json"},
		"another one":  {[]string{"backups/c/velero-backup.json"}, 0, "want files of backups/b only"},
		"outside":      {[]string{"backups/b/../../x"}, 0, "want files of backups/b only"},
		"the parent":   {[]string{"backups/b/.."}, 0, "want files of backups/b only"},
		"a folder":     {[]string{"backups/b/x/y"}, 0, "want files of backups/b only"},
		"a backslash":  {[]string{`backups/b/x\y`}, 0, "want files of backups/b only"},
		"none":         {[]string{"backups/b/"}, 0, "want files of backups/b only"},
		"absolute":     {[]string{"/etc/passwd"}, 0, "want files of backups/b only"},
		"twice":        {[]string{"backups/b/x", "backups/b/x"}, 0, "file exists"},
		"empty":        {nil, 0, "has no velero-backup.json"},
		"not a zipped": {nil, 1 << 20, "sent no archive of its files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive, err := os.Create(filepath.Join(t.TempDir(), "archive"))
			require.NoError(t, err)
			defer archive.Close()
			w := zip.NewWriter(archive)
			for _, entry := range test.entries {
				out, err := w.CreateHeader(&zip.FileHeader{Name: entry, Method: zip.Store})
				require.NoError(t, err)
				if entry[len(entry)-1] != '/' {
					_, err = out.Write([]byte("content"))
					require.NoError(t, err)
				}
			}
			require.NoError(t, w.Close())
			info, err := archive.Stat()
			require.NoError(t, err)
			dir := t.TempDir()
			size, err := unpack(archive, max(0, info.Size()-test.cut), "b", dir)
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 2*len("content"), size)
			require.FileExists(t, filepath.Join(dir, "velero-backup.json"))
		})
	}
}
