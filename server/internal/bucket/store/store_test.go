package store_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

func TestDownloadKeysAreThoseOfVelero(t *testing.T) {
	t.Parallel()
	keys := map[velerov1.DownloadTargetKind]string{
		"BackupLog":                       "backups/x/x-logs.gz",
		"BackupContents":                  "backups/x/x.tar.gz",
		"BackupVolumeSnapshots":           "backups/x/x-volumesnapshots.json.gz",
		"BackupItemOperations":            "backups/x/x-itemoperations.json.gz",
		"BackupResourceList":              "backups/x/x-resource-list.json.gz",
		"BackupResults":                   "backups/x/x-results.gz",
		"BackupVolumeInfos":               "backups/x/x-volumeinfo.json.gz",
		"CSIBackupVolumeSnapshots":        "backups/x/x-csi-volumesnapshots.json.gz",
		"CSIBackupVolumeSnapshotContents": "backups/x/x-csi-volumesnapshotcontents.json.gz",
		"RestoreLog":                      "restores/x/restore-x-logs.gz",
		"RestoreResults":                  "restores/x/restore-x-results.gz",
		"RestoreResourceList":             "restores/x/restore-x-resource-list.json.gz",
		"RestoreItemOperations":           "restores/x/restore-x-itemoperations.json.gz",
		"RestoreVolumeInfo":               "restores/x/x-volumeinfo.json.gz",
	}
	for kind, key := range keys {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			url, err := store.New(newMemory(), "bucket", "p").SignedURL(t.Context(),
				store.File{DownloadTarget: velerov1.DownloadTarget{Kind: kind, Name: "x"}}, 10*time.Minute)
			require.NoError(t, err)
			require.Equal(t, "https://objects.test/bucket/p/"+key+"?ttl=10m0s", url)
		})
	}
	_, err := store.New(newMemory(), "bucket", "").SignedURL(t.Context(),
		store.File{DownloadTarget: velerov1.DownloadTarget{Kind: "BackupSecrets", Name: "x"}}, time.Minute)
	require.ErrorContains(t, err, `unknown kind of download "BackupSecrets", want one of BackupContents, `)
}

func TestRestoreKeysAreThoseOfVelero(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	require.NoError(t, s.PutRestoreLog(t.Context(), "r1", strings.NewReader("x")))
	require.NoError(t, s.PutRestoreResults(t.Context(), "r1", strings.NewReader("x")))
	require.NoError(t, s.PutRestoreResourceList(t.Context(), "r1", strings.NewReader("x")))
	require.NoError(t, s.PutRestoreItemOperations(t.Context(), "r1", strings.NewReader("x")))
	require.Equal(t, []string{
		"restores/r1/restore-r1-logs.gz",
		"restores/r1/restore-r1-results.gz",
		"restores/r1/restore-r1-resource-list.json.gz",
		"restores/r1/restore-r1-itemoperations.json.gz",
	}, objects.puts())
	objects.set("restores/r10/restore-r10-logs.gz", "other")
	require.NoError(t, s.DeleteRestore(t.Context(), "r1"))
	require.Equal(t, []string{"restores/r10/restore-r10-logs.gz"}, objects.keys("bucket"))
}

func TestNamesMustBeOneSegmentOfAKey(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "a/b", "../b1", "A", "-a", "a-", "a_b", "a\x00", "a b",
		strings.Repeat("a", 254)} {
		objects := newMemory()
		s := store.New(objects, "bucket", "")
		_, err := s.BeginBackup(t.Context(), name, "")
		require.ErrorContains(t, err, "cannot be the name of a backup", "%q", name)
		_, err = s.BackupMetadata(t.Context(), name)
		require.Error(t, err)
		_, err = s.BackupExists(t.Context(), name)
		require.Error(t, err)
		_, err = s.BackupContents(t.Context(), name)
		require.Error(t, err)
		require.Error(t, s.DeleteBackup(t.Context(), name))
		require.Error(t, s.DeleteRestore(t.Context(), name))
		require.Error(t, s.RemovePartial(t.Context(), name, "u1"))
		require.Error(t, s.PutBackupMetadata(t.Context(), name, []byte("{}")))
		require.Error(t, s.PutRestoreLog(t.Context(), name, strings.NewReader("x")))
		require.Empty(t, objects.calls)
	}
}

func TestListBackupsReturnsNamesOfDirectories(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "/p/")
	names, foreign, err := s.ListBackups(t.Context())
	require.NoError(t, err)
	require.Empty(t, names)
	require.Empty(t, foreign)

	for _, key := range []string{
		"p/backups/b2/velero-backup.json", "p/backups/b2/b2.tar.gz", "p/backups/b1/b1-logs.gz",
		"p/backups/file", "p/backups/Not Valid/x", "p/backups/../x", "p/restores/r1/x", "backups/elsewhere/x",
	} {
		objects.set(key, "x")
	}
	names, foreign, err = s.ListBackups(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"b1", "b2"}, names)
	require.Equal(t, []string{"..", "Not Valid"}, foreign)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys []string
		want string // start of the message; "" is valid
	}{
		"empty bucket": {},
		"Velero's": {keys: []string{"p/backups/b/x", "p/restores/r/x", "p/restic/x", "p/metadata/revision",
			"p/plugins/x", "p/kopia/ns/x"}},
		"files at the top": {keys: []string{"p/readme"}},
		"others elsewhere": {keys: []string{"other/x", "prefix/x"}},
		"one foreign": {keys: []string{"p/backups/b/x", "p/photos/x"},
			want: "Backup store contains invalid top-level directories: [photos]"},
		"three foreign": {keys: []string{"p/a/x", "p/a/y", "p/a/z/x"},
			want: "Backup store contains invalid top-level directories: [a]"},
		"many foreign": {keys: []string{"p/a/x", "p/b/x", "p/c/x", "p/d/x"},
			want: "Backup store contains 4 invalid top-level directories: ["},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := newMemory()
			for _, key := range test.keys {
				objects.set(key, "x")
			}
			err := store.New(objects, "bucket", "p").Validate(t.Context())
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), test.want), err.Error())
			require.ErrorContains(t, err, "allowed are backups, restores, restic, metadata, plugins, kopia")
		})
	}
}

// spelledLister lists common prefixes in a spelling of its own.
type spelledLister struct {
	objectstore.Store
	spell func(dir, name string) string
}

func (s spelledLister) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	found, err := s.Store.ListCommonPrefixes(ctx, bucket, prefix, delimiter)
	for i, one := range found {
		found[i] = s.spell(prefix, strings.TrimSuffix(strings.TrimPrefix(one, prefix), delimiter))
	}
	return found, err
}

func TestDirectoriesAreTakenAsVeleroTakesThem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spell func(dir, name string) string
		warns bool
	}{
		"whole":                 {func(dir, name string) string { return dir + name + "/" }, false},
		"without the slash":     {func(dir, name string) string { return dir + name }, true},
		"without the directory": {func(_, name string) string { return name + "/" }, true},
		"without both":          {func(_, name string) string { return name }, true},
		"the directory itself among all": {func(dir, name string) string {
			return strings.TrimSuffix(dir+name+"/", "itself/")
		}, true},
	} {
		for _, prefix := range []string{"", "p"} {
			t.Run(name+", prefix "+prefix, func(t *testing.T) {
				t.Parallel()
				objects := newMemory()
				s := store.New(spelledLister{objects, test.spell}, "bucket", prefix)
				warned := map[string]bool{}
				s.Warn = func(message string) { warned[message] = true }
				for _, key := range []string{"backups/b1/x", "backups/b2/x", "backups/itself/x"} {
					objects.set(path.Join(prefix, key), "x")
				}
				require.NoError(t, s.Validate(t.Context()))
				names, _, err := s.ListBackups(t.Context())
				require.NoError(t, err)
				require.Subset(t, names, []string{"b1", "b2"})
				require.NotContains(t, names, "")
				require.Equal(t, test.warns, len(warned) == 1, "%v", warned)

				objects.set(path.Join(prefix, "photos/x"), "x")
				require.ErrorContains(t, s.Validate(t.Context()), "Backup store contains invalid top-level directories: [photos]")
			})
		}
	}
}

func TestListingsWithForeignKeysAreErrors(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	objects.set("backups/b1/velero-backup.json", "x")
	objects.set("backups/other/velero-backup.json", "x")
	s := store.New(foreignLister{objects}, "bucket", "")

	require.ErrorContains(t, s.DeleteBackup(t.Context(), "b1"), "which is elsewhere")
	require.Len(t, objects.keys("bucket"), 2)
	_, _, err := s.ListBackups(t.Context())
	require.ErrorContains(t, err, `the object store answered "restores/r1/", want "backups/NAME/"`)
}

func TestJSONArtifactsRoundTrip(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	list := map[string][]string{"v1/Pod": {"ns/a<b"}}
	body, err := store.EncodeJSON(list)
	require.NoError(t, err)
	upload := begin(t, objects)
	_, err = io.WriteString(upload.Contents(), "archive")
	require.NoError(t, err)
	require.NoError(t, upload.Commit(t.Context(), store.Artifacts{Metadata: []byte(`{}`), ResourceList: body}))

	plain, err := gzip.NewReader(strings.NewReader(objects.content("backups/b1/b1-resource-list.json.gz")))
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	require.Equal(t, `{"v1/Pod":["ns/a\u003cb"]}`+"\n", string(text), "the encoding of Velero")

	got, err := store.DecodeJSON[map[string][]string](t.Context(), s, velerov1.DownloadTargetKindBackupResourceList, "b1")
	require.NoError(t, err)
	require.Equal(t, list, got)

	missing, err := store.DecodeList[[]string](t.Context(), s, velerov1.DownloadTargetKindBackupItemOperations, "b1")
	require.NoError(t, err, "artifacts are optional")
	require.Empty(t, missing)
}

func TestDamagedArtifactsAreErrors(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	compressed := gzip.NewWriter(&whole)
	_, err := io.WriteString(compressed, `["one","two"]`)
	require.NoError(t, err)
	require.NoError(t, compressed.Close())
	flipped := bytes.Clone(whole.Bytes())
	flipped[len(flipped)-6] ^= 1 // in the checksum

	for name, content := range map[string]string{
		"not gzip":      `["one"]`,
		"empty":         "",
		"truncated":     whole.String()[:whole.Len()-9],
		"wrong content": string(flipped),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := newMemory()
			objects.set("backups/b1/b1-itemoperations.json.gz", content)
			_, err := store.DecodeList[[]string](t.Context(), store.New(objects, "bucket", ""),
				velerov1.DownloadTargetKindBackupItemOperations, "b1")
			require.Error(t, err)
		})
	}
}

func TestMetadataIsRequiredAndBounded(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	_, err := s.BackupMetadata(t.Context(), "b1")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.BackupContents(t.Context(), "b1")
	require.ErrorIs(t, err, store.ErrNotFound)

	require.NoError(t, s.PutBackupMetadata(t.Context(), "b1", []byte(`{"metadata":{"uid":"u1"}}`)))
	got, err := s.BackupMetadata(t.Context(), "b1")
	require.NoError(t, err)
	require.Equal(t, `{"metadata":{"uid":"u1"}}`, string(got))

	objects.set("backups/b1/velero-backup.json", strings.Repeat(" ", 16<<20+1))
	_, err = s.BackupMetadata(t.Context(), "b1")
	require.ErrorContains(t, err, "larger than the limit of 3145728 bytes")
}

func TestGetUncompressesAllButTheArchive(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	var log bytes.Buffer
	compressed := gzip.NewWriter(&log)
	_, err := io.WriteString(compressed, "a line")
	require.NoError(t, err)
	require.NoError(t, compressed.Close())
	objects.set("backups/b1/b1-logs.gz", log.String())
	objects.set("backups/b1/b1.tar.gz", log.String())
	s := store.New(objects, "bucket", "")

	for kind, want := range map[velerov1.DownloadTargetKind]string{
		velerov1.DownloadTargetKindBackupLog:      "a line",
		velerov1.DownloadTargetKindBackupContents: log.String(),
	} {
		body, err := s.Get(t.Context(), kind, "b1")
		require.NoError(t, err)
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.NoError(t, body.Close())
	}
}
