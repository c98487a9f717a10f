package restic_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic"
)

func TestVolumeComesBack(t *testing.T) {
	t.Parallel()
	m, r := mover(t), directory(t)
	volume, target := t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{"a/b": "content", "c": "more"})
	input := &dmv1.BackupInput{
		Repository: r, Key: "load-1", Volume: dmv1.Volume{Path: volume}, Parent: "ff20f6e7",
		Tags: map[string]string{"backup": "nightly", "ns": "shop"}, Settings: map[string]string{"ParallelFilesUpload": "3",
			"Colour": "red"},
	}
	_, err := m.Backup(t.Context(), input)
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.ErrorContains(t, err, "there is no repository of restic at cleat.dev/file backups/velero/restic/shop")

	checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.NoError(t, err)
	require.True(t, checked.Created)
	first, err := m.Backup(t.Context(), input)
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{64}$", first.SnapshotID)
	require.EqualValues(t, 11, first.Bytes)
	require.Positive(t, first.NewBytes)
	require.Contains(t, first.Warnings, `the setting "Colour" is not one of cleat.dev/restic and has no effect`)
	stored := snapshots(t, r)
	require.Len(t, stored, 1)
	require.Equal(t, snapshot{
		ID: first.SnapshotID, Paths: []string{volume}, Hostname: "velero", Tags: []string{"backup=nightly",
			"cleat-load=load-1", "ns=shop"},
	}, stored[0])

	input.Again = true
	again, err := m.Backup(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, first.SnapshotID, again.SnapshotID)
	require.Equal(t, first.Bytes, again.Bytes)
	require.Len(t, snapshots(t, r), 1)

	write(t, volume, map[string]string{"d": "new"})
	second, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "load-2", Volume: dmv1.Volume{Path: volume},
		Parent: first.SnapshotID[:8]})
	require.NoError(t, err)
	require.Less(t, second.NewBytes, first.NewBytes)
	for _, one := range snapshots(t, r) {
		require.Equal(t, one.ID == second.SnapshotID, one.Parent == first.SnapshotID)
	}

	write(t, target, map[string]string{"a/b": "older and longer", "kept": "stays"})
	restored, err := m.Restore(t.Context(), &dmv1.RestoreInput{
		Repository: r, SnapshotID: first.SnapshotID[:8], Volume: dmv1.Volume{Path: target}, Bytes: first.Bytes,
	})
	require.NoError(t, err)
	require.Equal(t, first.Bytes, restored.Bytes)
	require.Equal(t, "content", read(t, target, "a", "b"))
	require.Equal(t, "more", read(t, target, "c"))
	require.Equal(t, "stays", read(t, target, "kept"))
	require.NoFileExists(t, filepath.Join(target, "d"))

	_, err = m.Forget(t.Context(),
		&dmv1.ForgetInput{Repository: r, SnapshotIDs: []string{first.SnapshotID, "0123456789abcdef", "no id"}})
	require.NoError(t, err)
	left := snapshots(t, r)
	require.Len(t, left, 1)
	require.Equal(t, second.SnapshotID, left[0].ID)
	checked, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Structure,
		SnapshotIDs: []string{first.SnapshotID, second.SnapshotID, "no id"}})
	require.NoError(t, err)
	require.True(t, checked.Looked)
	require.Equal(t, []string{first.SnapshotID, "no id"}, checked.Missing)
	_, err = m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: first.SnapshotID,
		Volume: dmv1.Volume{Path: target}})
	require.ErrorIs(t, err, framework.ErrNotFound)

	require.NoError(t, os.RemoveAll(filepath.Join(volume, "c")))
	_, err = m.Forget(t.Context(), &dmv1.ForgetInput{Repository: r, SnapshotIDs: []string{second.SnapshotID}})
	require.NoError(t, err)
	maintained, err := m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.NoError(t, err)
	require.Positive(t, maintained.FreedBytes)
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Data})
	require.NoError(t, err)
}

func TestDeviceComesBack(t *testing.T) {
	t.Parallel()
	m, r := mover(t), repository(t)
	content := make([]byte, 9<<20)
	copy(content[5<<20:], "in the middle of nothing")
	device, target := filepath.Join(t.TempDir(), "device"), filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(device, content, 0o600))
	require.NoError(t, os.WriteFile(target, []byte("what was there before"), 0o600))
	var seen []dmv1.Progress
	stored, err := m.Backup(t.Context(), &dmv1.BackupInput{
		Repository: r, Key: "k", Volume: dmv1.Volume{Path: device, Block: true},
		Report: func(p dmv1.Progress) { seen = append(seen, p) },
	})
	require.NoError(t, err)
	require.EqualValues(t, len(content), stored.Bytes)
	require.NoError(t, os.Truncate(target, 8<<20))
	input := &dmv1.RestoreInput{Repository: r, SnapshotID: stored.SnapshotID,
		Volume: dmv1.Volume{Path: target, Block: true}, Bytes: stored.Bytes}
	_, err = m.Restore(t.Context(), input)
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "want a volume that is not smaller")
	require.NoError(t, os.Truncate(target, 9<<20))
	restored, err := m.Restore(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, stored.Bytes, restored.Bytes)
	require.Equal(t, string(content), read(t, target))
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*restic.Config){
		`uploadLimit: it is "fast"`:                func(c *restic.Config) { c.UploadLimit = "fast" },
		`memoryLimit: it is "1Mi"`:                 func(c *restic.Config) { c.MemoryLimit = "1Mi" },
		`compression: it is "best"`:                func(c *restic.Config) { c.Compression = "best" },
		`lockWait: it is "long"`:                   func(c *restic.Config) { c.LockWait = "long" },
		`connections: it is -1`:                    func(c *restic.Config) { c.Connections = -1 },
		`find the restic program: exec: "resstic"`: func(c *restic.Config) { c.Program = "resstic" },
		`is not restic, its version is "version"`:  func(c *restic.Config) { c.Program = "/bin/echo" },
	} {
		_, err := mover(t, change).Check(t.Context(), &dmv1.CheckInput{Repository: directory(t)})
		require.ErrorIs(t, err, framework.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
}

func TestRepositoryMustBeOneThatResticCanReach(t *testing.T) {
	t.Parallel()
	m := mover(t)
	for want, change := range map[string]func(*dmv1.Repository){
		`repository path "../other" must be relative`: func(r *dmv1.Repository) { r.Path = "../other" },
		`repository path "" must be relative`:         func(r *dmv1.Repository) { r.Path = "" },
		"the location has no bucket":                  func(r *dmv1.Repository) { r.Config["bucket"] = "" },
		`prefix "../.." leaves the location`:          func(r *dmv1.Repository) { r.Config["prefix"] = "../.." },
		"cleat.dev/restic can use locations of cleat.dev/s3": func(r *dmv1.Repository) {
			r.Provider = "velero.io/gcp"
			delete(r.Config, "path")
		},
		"s3ForcePathStyle is \"perhaps\"": func(r *dmv1.Repository) {
			r.Provider, r.Config["s3ForcePathStyle"] = "cleat.dev/s3", "perhaps"
		},
		"is one of Kopia": func(r *dmv1.Repository) { r.Path = "kopia/shop" },
	} {
		r := directory(t)
		change(&r)
		_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
		require.ErrorIs(t, err, framework.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
}
