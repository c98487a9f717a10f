package store_test

import (
	"archive/zip"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

func allFilesOf(backup string) store.File {
	target := velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupResourceList, Name: backup}
	return store.File{DownloadTarget: target, Artifact: store.AllFiles}
}

// TestAllFilesOfABackup reads the archive, in which velero-backup.json comes last.
func TestAllFilesOfABackup(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := store.New(m, "bucket", "p")
	_, err := s.Download(t.Context(), allFilesOf("b"))
	require.ErrorIs(t, err, store.ErrNotFound)
	want := map[string]string{"backups/b/b.tar.gz": strings.Repeat("x", 100_000), "backups/b/b-logs.gz": "log",
		"backups/b/zzz.json": "", "backups/b/velero-backup.json": "{}"}
	for key, content := range want {
		m.set("p/"+key, content)
	}
	m.set("p/backups/c/velero-backup.json", "{}")
	m.set("p/backups/b/staged/u/1/b.tar.gz/000001", "of the run")
	m.set("p/backups/b/rewritten/b-logs.gz/000001", "of the bucket")
	body, err := s.Download(t.Context(), allFilesOf("b"))
	require.NoError(t, err)
	content, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	got := map[string]string{}
	for _, entry := range archive.File {
		opened, err := entry.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(opened)
		require.NoError(t, err)
		got[entry.Name] = string(content)
	}
	require.Equal(t, want, got)
	require.Equal(t, "backups/b/velero-backup.json", archive.File[len(archive.File)-1].Name)

	m.failAt("get p/backups/b/zzz.json")
	body, err = s.Download(t.Context(), allFilesOf("b"))
	require.NoError(t, err)
	_, err = io.ReadAll(body)
	require.ErrorContains(t, err, "read p/backups/b/", "what cannot be read breaks the archive")
	require.NoError(t, body.Close())

	_, err = s.SignedURL(t.Context(), allFilesOf("b"), 1)
	require.ErrorContains(t, err, "all files of a backup are not a file in the bucket")
	_, err = s.Download(t.Context(), allFilesOf("../b"))
	require.ErrorContains(t, err, "cannot be the name of a backup")
	require.ErrorContains(t, store.CheckArtifact(store.AllFiles), "choose another name")
}
