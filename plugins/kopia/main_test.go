package kopia_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/plugins/kopia"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

var plane = controlplane.Shared{Common: true}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// password is that of all repositories, Velero's default.
const password = "static-passw0rd"

// mover returns the mover with a cache of its own.
func mover(t *testing.T, configure ...func(*kopia.Config)) dmv1.DataMover {
	t.Helper()
	config := kopia.Defaults()
	config.CacheDirectory = t.TempDir()
	for _, change := range configure {
		change(&config)
	}
	return plugintest.Run(t, kopia.Register()).DataMoverV1(kopia.Name, plugintest.WithConfig(config))
}

// directory returns the repository "kopia/shop" in a location that is a directory. It does not exist yet.
func directory(t *testing.T) dmv1.Repository {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "backups"), 0o750))
	return dmv1.Repository{
		Provider: "cleat.dev/file", Config: map[string]string{"path": root, "bucket": "backups", "prefix": "velero"},
		Path: "kopia/shop", Password: []byte(password),
	}
}

// folder returns where the files of a repository of directory are.
func folder(r dmv1.Repository) string {
	return filepath.Join(r.Config["path"], r.Config["bucket"], r.Config["prefix"], r.Path)
}

// repository returns an empty repository in a directory.
func repository(t *testing.T, m dmv1.DataMover) dmv1.Repository {
	t.Helper()
	made := directory(t)
	checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: made, Create: true})
	require.NoError(t, err)
	require.True(t, checked.Created)
	return made
}

// ofPod is a source whose snapshots have parents.
func ofPod() dmv1.Source {
	return dmv1.Source{Requester: dmv1.PodVolume, Namespace: "shop", Pod: "web-0", Volume: "data", Claim: "data-web-0"}
}

// backup backs up a directory.
func backup(t *testing.T, m dmv1.DataMover, r dmv1.Repository, key, dir string) *dmv1.BackupOutput {
	t.Helper()
	output, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: key, Volume: dmv1.Volume{Path: dir},
		Source: ofPod()})
	require.NoError(t, err)
	return output
}

// restore restores a snapshot to a directory.
func restore(t *testing.T, m dmv1.DataMover, r dmv1.Repository, id, dir string) *dmv1.RestoreOutput {
	t.Helper()
	output, err := m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: id,
		Volume: dmv1.Volume{Path: dir}})
	require.NoError(t, err)
	return output
}

// write writes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// random returns bytes that do not compress.
func random(size int) string {
	content := make([]byte, size)
	_, _ = rand.Read(content) // never fails
	return string(content)
}

// read returns the content of a file.
func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(content)
}
