package kopia_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kopia/kopia/repo/format"
	"github.com/kopia/kopia/repo/maintenance"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/policy"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia"
	kopiarepository "github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
)

// opened opens a repository in a directory by kopia itself.
func opened(t *testing.T, r dmv1.Repository) *kopiarepository.Repository {
	t.Helper()
	st, err := storage.OpenDirectory(t.Context(), folder(r), false)
	require.NoError(t, err)
	found, err := kopiarepository.Open(t.Context(), st, kopiarepository.Options{Password: password})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, found.Close(t.Context())) })
	return found
}

// snapshots returns those of a repository in a directory.
func snapshots(t *testing.T, r dmv1.Repository) []*snapshot.Manifest {
	t.Helper()
	all, err := kopiarepository.All(t.Context(), opened(t, r))
	require.NoError(t, err)
	return all
}

func TestVolumeComesBack(t *testing.T) {
	t.Parallel()
	m, r := mover(t), directory(t)
	volume, target := t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{"a/b": "content", "c": "more"})
	input := &dmv1.BackupInput{
		Repository: r, Key: "load-1", Volume: dmv1.Volume{Path: volume}, Parent: "ff20f6e7", Source: ofPod(),
		Tags: map[string]string{"backup": "nightly", "ns": "shop"}, Settings: map[string]string{"ParallelFilesUpload": "3",
			"Colour": "red"},
	}
	_, err := m.Backup(t.Context(), input)
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.ErrorContains(t, err, "there is no repository of kopia at cleat.dev/file backups/velero/kopia/shop")

	checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.NoError(t, err)
	require.True(t, checked.Created)
	first, err := m.Backup(t.Context(), input)
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{32}$", first.SnapshotID)
	require.EqualValues(t, 11, first.Bytes)
	require.Positive(t, first.NewBytes)
	require.Contains(t, first.Warnings, `the setting "Colour" is not one of cleat.dev/kopia and has no effect`)

	input.Again = true
	again, err := m.Backup(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, first.SnapshotID, again.SnapshotID)
	require.Equal(t, first.Bytes, again.Bytes)
	require.Len(t, snapshots(t, r), 1)

	write(t, volume, map[string]string{"d": "new"})
	second := backup(t, m, r, "load-2", volume)
	require.EqualValues(t, 14, second.Bytes)

	write(t, target, map[string]string{"a/b": "older and longer", "kept": "stays"})
	restored := restore(t, m, r, first.SnapshotID, target)
	require.Equal(t, first.Bytes, restored.Bytes)
	require.Equal(t, "content", read(t, target, "a", "b"))
	require.Equal(t, "more", read(t, target, "c"))
	require.Equal(t, "stays", read(t, target, "kept"))
	require.NoFileExists(t, filepath.Join(target, "d"))

	forgotten, err := m.Forget(t.Context(), &dmv1.ForgetInput{
		Repository: r, SnapshotIDs: []string{first.SnapshotID, second.SnapshotID, "0123456789abcdef", "no id"},
		Tags: map[string]string{"backup": "nightly"},
	})
	require.NoError(t, err)
	require.Equal(t, []string{second.SnapshotID}, forgotten.Kept, "it has no such tag")
	left := snapshots(t, r)
	require.Len(t, left, 1)
	require.EqualValues(t, second.SnapshotID, left[0].ID)
	_, err = m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: first.SnapshotID,
		Volume: dmv1.Volume{Path: target}})
	require.ErrorIs(t, err, framework.ErrNotFound)

	_, err = m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.NoError(t, err)
	for _, depth := range []dmv1.Depth{dmv1.Access, dmv1.Structure, dmv1.Data} {
		found, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: depth,
			SnapshotIDs: []string{first.SnapshotID, second.SnapshotID}})
		require.NoError(t, err)
		require.True(t, found.Looked)
		require.Equal(t, []string{first.SnapshotID}, found.Missing, "which was forgotten")
	}
}

// TestRepositoryIsAsVeleroHasIt proves what Velero 1.18.3 relies on, as its sources have it.
func TestRepositoryIsAsVeleroHasIt(t *testing.T) {
	t.Parallel()
	m, r, volume := mover(t), directory(t), t.TempDir()
	_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true,
		Settings: map[string]string{"fullMaintenanceInterval": "fastGC", "cacheLimitMB": "100"}})
	require.NoError(t, err)
	write(t, volume, map[string]string{"a": "content"})
	first := backup(t, m, r, "load-1", volume)
	upload, err := m.Backup(t.Context(), &dmv1.BackupInput{
		Repository: r, Key: "load-2", Volume: dmv1.Volume{Path: volume},
		Tags:   map[string]string{"velero.io/async-operation-id": "du-1"},
		Source: dmv1.Source{Requester: dmv1.DataUpload, Namespace: "shop", Claim: "data-web-0"},
	})
	require.NoError(t, err)

	found := opened(t, r)
	formats := found.FormatManager()
	version, err := formats.GetMutableParameters(t.Context())
	require.NoError(t, err)
	require.Equal(t, format.FormatVersion3, version.Version)
	require.Equal(t, "BLAKE2B-256-128", formats.GetHashFunction())
	require.Equal(t, "AES256-GCM-HMAC-SHA256", formats.GetEncryptionAlgorithm())
	require.Equal(t, "DYNAMIC-4M-BUZHASH", found.ObjectFormat().Splitter)
	params, err := maintenance.GetParams(t.Context(), found)
	require.NoError(t, err)
	require.Equal(t, "default@default", params.Owner)
	require.Equal(t, 12*time.Hour, params.FullCycle.Interval)
	require.Equal(t, time.Hour, params.QuickCycle.Interval)
	seal := struct {
		UniqueID []byte `json:"uniqueID"`
	}{}
	for _, file := range []string{"udmrepo.Repository.f", "udm/rep/o.Repository.f"} {
		if text, err := os.ReadFile(filepath.Join(folder(r), file)); err == nil {
			require.NoError(t, json.Unmarshal(text, &seal))
		}
	}
	if seal.UniqueID == nil { // where the file is depends on kopia
		st, err := storage.OpenDirectory(t.Context(), folder(r), false)
		require.NoError(t, err)
		state, err := kopiarepository.Look(t.Context(), st)
		require.NoError(t, err)
		require.Equal(t, kopiarepository.Complete, state)
	} else {
		require.Equal(t, found.UniqueID(), seal.UniqueID)
	}

	for id, want := range map[string]struct {
		path string
		tags map[string]string
	}{
		first.SnapshotID: {"snapshot-pod-volume/kopia/shop/web-0/data-web-0", map[string]string{
			"snapshot-requester": "snapshot-pod-volume", "snapshot-uploader": "kopia", "cleat-load": "load-1",
			"cleat-names": "escaped"}},
		upload.SnapshotID: {"snapshot-data-upload-download/kopia/shop/data-web-0", map[string]string{
			"snapshot-requester": "snapshot-data-upload-download", "snapshot-uploader": "kopia", "cleat-load": "load-2",
			"cleat-names": "escaped", "velero.io/async-operation-id": "du-1"}},
	} {
		one, err := kopiarepository.Snapshot(t.Context(), found, id)
		require.NoError(t, err)
		require.Equal(t, snapshot.SourceInfo{UserName: "default", Host: "default", Path: want.path}, one.Source)
		require.Equal(t, want.tags, one.Tags)
		require.Equal(t, "Kopia Uploader", one.Description)
		require.Equal(t, []string{"velero-pin"}, one.Pins)
		require.Empty(t, one.IncompleteReason)
		kept, err := policy.GetDefinedPolicy(t.Context(), found, one.Source)
		require.NoError(t, err)
		for _, keep := range []*policy.OptionalInt{kept.RetentionPolicy.KeepLatest, kept.RetentionPolicy.KeepHourly,
			kept.RetentionPolicy.KeepDaily, kept.RetentionPolicy.KeepWeekly, kept.RetentionPolicy.KeepMonthly,
			kept.RetentionPolicy.KeepAnnual} {
			require.EqualValues(t, 1<<31-1, *keep)
		}
		require.True(t, kept.SchedulingPolicy.Manual)
	}

	_, err = m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r,
		Settings: map[string]string{"fullMaintenanceInterval": "eagerGC"}})
	require.NoError(t, err)
	params, err = maintenance.GetParams(t.Context(), opened(t, r))
	require.NoError(t, err)
	require.Equal(t, 6*time.Hour, params.FullCycle.Interval)
	require.Equal(t, "default@default", params.Owner)
}

func TestUnchangedFilesAreTakenFromTheParent(t *testing.T) {
	t.Parallel()
	m := mover(t)
	r, volume := repository(t, m), t.TempDir()
	write(t, volume, map[string]string{"a": random(1 << 20), "b/c": random(1 << 20)})
	written := time.Now()
	require.Eventually(t, func() bool { return time.Since(written) > 3*time.Second }, time.Minute, 100*time.Millisecond,
		"files that were written just before a backup are read again by the next one")
	backup(t, m, r, "k-1", volume)
	// a parent is known only if its files were not changed after it began
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(volume, "a"), old, old))
	changed := backup(t, m, r, "k-2", volume)
	require.Less(t, changed.NewBytes, int64(1<<20), "content that is stored is not stored again")
	cached := func() (count int32) {
		for _, one := range snapshots(t, r) {
			count = max(count, one.Stats.CachedFiles)
		}
		return count
	}
	require.Positive(t, cached())
	full, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k-3", Volume: dmv1.Volume{Path: volume},
		Source: ofPod(), Full: true})
	require.NoError(t, err)
	one, err := kopiarepository.Snapshot(t.Context(), opened(t, r), full.SnapshotID)
	require.NoError(t, err)
	require.Zero(t, one.Stats.CachedFiles)
}

func TestDeviceComesBack(t *testing.T) {
	t.Parallel()
	m := mover(t)
	r := repository(t, m)
	content := make([]byte, 9<<20)
	copy(content[5<<20:], "in the middle of nothing")
	device, target := filepath.Join(t.TempDir(), "device"), filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(device, content, 0o600))
	require.NoError(t, os.WriteFile(target, []byte(random(8<<20)), 0o600))
	stored, err := m.Backup(t.Context(), &dmv1.BackupInput{
		Repository: r, Key: "k", Volume: dmv1.Volume{Path: device, Block: true}, Source: ofPod(),
	})
	require.NoError(t, err)
	require.EqualValues(t, len(content), stored.Bytes)
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

	files := t.TempDir()
	write(t, files, map[string]string{"a": "1", "b": "2"})
	input.SnapshotID = backup(t, m, r, "files", files).SnapshotID
	_, err = m.Restore(t.Context(), input)
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "the snapshot is not one of a block device")
}

func TestRepositoryMustBeOneThatKopiaCanReach(t *testing.T) {
	t.Parallel()
	m := mover(t)
	for want, change := range map[string]func(*dmv1.Repository){
		`repository path "../other" must be relative`: func(r *dmv1.Repository) { r.Path = "../other" },
		`repository path "" must be relative`:         func(r *dmv1.Repository) { r.Path = "" },
		"the location has no bucket":                  func(r *dmv1.Repository) { r.Config["bucket"] = "" },
		`prefix "../.." leaves the location`:          func(r *dmv1.Repository) { r.Config["prefix"] = "../.." },
		"cleat.dev/kopia can use locations of cleat.dev/s3": func(r *dmv1.Repository) {
			r.Provider = "velero.io/gcp"
			delete(r.Config, "path")
		},
		"s3ForcePathStyle is \"perhaps\"": func(r *dmv1.Repository) {
			r.Provider, r.Config["s3ForcePathStyle"] = "cleat.dev/s3", "perhaps"
		},
		`s3Url is "http://s3.test/path", want a URL without a path`: func(r *dmv1.Repository) {
			r.Provider, r.Config["s3Url"] = "cleat.dev/s3", "http://s3.test/path"
		},
		"is one of restic": func(r *dmv1.Repository) { r.Path = "restic/shop" },
	} {
		r := directory(t)
		change(&r)
		_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
		require.ErrorIs(t, err, framework.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*kopia.Config){
		`uploadLimit: it is "fast"`:   func(c *kopia.Config) { c.UploadLimit = "fast" },
		`memoryLimit: it is "1Mi"`:    func(c *kopia.Config) { c.MemoryLimit = "1Mi" },
		`compression: it is "best"`:   func(c *kopia.Config) { c.Compression = "best" },
		`parallelism: it is -1`:       func(c *kopia.Config) { c.Parallelism = -1 },
		`cacheLimitMB: it is -1`:      func(c *kopia.Config) { c.CacheLimitMB = -1 },
		`downloadLimit: it is "slow"`: func(c *kopia.Config) { c.DownloadLimit = "slow" },
	} {
		_, err := mover(t, change).Check(t.Context(), &dmv1.CheckInput{Repository: directory(t)})
		require.ErrorIs(t, err, framework.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
}

func TestReadOnlyRepositoryIsNotWritten(t *testing.T) {
	t.Parallel()
	m := mover(t)
	r, volume := repository(t, m), t.TempDir()
	write(t, volume, map[string]string{"a": "content"})
	stored := backup(t, m, r, "k", volume)
	before := times(t, folder(r))
	r.ReadOnly = true
	restore(t, m, r, stored.SnapshotID, t.TempDir())
	for _, depth := range []dmv1.Depth{dmv1.Access, dmv1.Structure, dmv1.Data} {
		_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: depth})
		require.NoError(t, err)
	}
	require.Equal(t, before, times(t, folder(r)))
	other := directory(t)
	other.ReadOnly = true
	_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: other, Create: true})
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.NoDirExists(t, folder(other))
}

// times returns the times of all files below a directory.
func times(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			all[path] = info.ModTime().String()
		}
		return err
	}))
	return all
}

func TestRepositoryThatWasBegunIsCompleted(t *testing.T) {
	t.Parallel()
	m, r := mover(t), directory(t)
	st, err := storage.OpenDirectory(t.Context(), folder(r), true)
	require.NoError(t, err)
	require.NoError(t, kopiarepository.Initialize(t.Context(), st, password))
	wrong := r
	wrong.Password = []byte("another")
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: wrong, Create: true})
	require.ErrorIs(t, err, framework.ErrInvalid)
	checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.NoError(t, err)
	require.False(t, checked.Created)
	state, err := kopiarepository.Look(t.Context(), st)
	require.NoError(t, err)
	require.Equal(t, kopiarepository.Complete, state)

	other := directory(t)
	write(t, folder(other), map[string]string{"config": "of another program"})
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: other, Create: true})
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "no repository of kopia")
}

func TestSparseFilesStaySparse(t *testing.T) {
	t.Parallel()
	m := mover(t)
	r, volume, target := repository(t, m), t.TempDir(), t.TempDir()
	hole, err := os.Create(filepath.Join(volume, "hole"))
	require.NoError(t, err)
	require.NoError(t, hole.Truncate(20<<20+5))
	_, err = hole.WriteAt([]byte("island"), 10<<20+1)
	require.NoError(t, err)
	require.NoError(t, hole.Close())
	stored := backup(t, m, r, "k", volume)
	for sparse, most := range map[string]int64{"true": 1 << 20, "false": 1 << 40} {
		_, err := m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: stored.SnapshotID,
			Volume: dmv1.Volume{Path: target}, Settings: map[string]string{"WriteSparseFiles": sparse,
				"ParallelFilesDownload": "2"}})
		require.NoError(t, err)
		require.Equal(t, read(t, volume, "hole"), read(t, target, "hole"))
		require.Less(t, allocated(t, filepath.Join(target, "hole")), most)
	}
}
