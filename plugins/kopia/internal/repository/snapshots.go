package repository

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/manifest"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/policy"
	"github.com/kopia/kopia/snapshot/upload"
)

// Names of tags of snapshots. Those of Velero are how it finds parents.
const (
	RequesterTag = "snapshot-requester"
	UploaderTag  = "snapshot-uploader"
	// KeyTag has the key of the load.
	KeyTag = "cleat-load"
)

// Values of UploaderTag.
const (
	Uploader = "kopia"
	// BlockUploader is that of the snapshots of block devices by versions of Velero after 1.18. They are restored, and
	// never the parent of another snapshot: they are made of changed blocks, in pieces that kopia does not make.
	BlockUploader = "velero-block"
)

// deviceSizeTag of a snapshot of BlockUploader has the size of the device in bytes. The stored file may be larger.
const deviceSizeTag = "bdev-source-size"

const (
	description = "Kopia Uploader"
	pin         = "velero-pin"
)

// Source returns the source of the snapshots of a volume.
func Source(path string) snapshot.SourceInfo {
	return snapshot.SourceInfo{UserName: Client, Host: Client, Path: path}
}

// reserved are the labels of a snapshot that are no tags.
func reserved(tag string) bool {
	switch tag {
	case manifest.TypeLabelKey, snapshot.HostnameLabel, snapshot.UsernameLabel, snapshot.PathLabel:
		return true
	}
	return false
}

// CheckTags returns an error if tags cannot be those of a snapshot.
func CheckTags(tags map[string]string) error {
	for name := range tags {
		if reserved(name) || name == "" {
			return fmt.Errorf("the tag %q is one that kopia uses itself", name)
		}
	}
	return nil
}

var snapshotID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Snapshot returns a snapshot; snapshot.ErrSnapshotNotFound if there is none.
func Snapshot(ctx context.Context, r repo.Repository, id string) (*snapshot.Manifest, error) {
	if !snapshotID.MatchString(id) {
		return nil, snapshot.ErrSnapshotNotFound
	}
	var found snapshot.Manifest
	entry, err := r.GetManifest(ctx, manifest.ID(id), &found)
	switch {
	case errors.Is(err, manifest.ErrNotFound):
		return nil, snapshot.ErrSnapshotNotFound
	case err != nil:
		return nil, fmt.Errorf("read the manifest of snapshot %s: %w", id, err)
	case entry.Labels[manifest.TypeLabelKey] != snapshot.ManifestType || found.IncompleteReason != "":
		return nil, snapshot.ErrSnapshotNotFound
	case found.RootEntry == nil:
		return nil, fmt.Errorf("the manifest of snapshot %s has no root", id)
	}
	found.ID = entry.ID
	return &found, nil
}

// All returns all snapshots, also those that are not complete. One that cannot be read is an error.
func All(ctx context.Context, r repo.Repository) ([]*snapshot.Manifest, error) {
	return find(ctx, r, map[string]string{manifest.TypeLabelKey: snapshot.ManifestType})
}

// find returns the snapshots with labels.
func find(ctx context.Context, r repo.Repository, labels map[string]string) ([]*snapshot.Manifest, error) {
	entries, err := r.FindManifests(ctx, labels)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	all := make([]*snapshot.Manifest, 0, len(entries))
	for _, entry := range entries {
		var one snapshot.Manifest
		if _, err := r.GetManifest(ctx, entry.ID, &one); err != nil {
			return nil, fmt.Errorf("read the manifest of snapshot %s: %w", entry.ID, err)
		}
		one.ID = entry.ID
		all = append(all, &one)
	}
	return all, nil
}

// Stored returns the complete snapshot of a load; nil if there is none.
func Stored(ctx context.Context, r repo.Repository, key string) (*snapshot.Manifest, error) {
	found, err := find(ctx, r, map[string]string{manifest.TypeLabelKey: snapshot.ManifestType, KeyTag: key})
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		if one.IncompleteReason == "" && one.RootEntry != nil {
			return one, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// Checkpoint returns the newest incomplete snapshot of a load, with what was stored until its process was killed; nil
// if there is none.
func Checkpoint(ctx context.Context, r repo.Repository, key string) (*snapshot.Manifest, error) {
	found, err := find(ctx, r, map[string]string{manifest.TypeLabelKey: snapshot.ManifestType, KeyTag: key})
	if err != nil {
		return nil, err
	}
	var newest *snapshot.Manifest
	for _, one := range found {
		if one.IncompleteReason != "" && one.RootEntry != nil && (newest == nil || one.EndTime.After(newest.EndTime)) {
			newest = one
		}
	}
	return newest, nil
}

// Latest returns the newest complete snapshot of a source and requester, which is the one that Velero takes as parent;
// nil if there is none.
func Latest(
	ctx context.Context, r repo.Repository, source snapshot.SourceInfo, requester string,
) (*snapshot.Manifest, error) {
	found, err := find(ctx, r, map[string]string{
		manifest.TypeLabelKey: snapshot.ManifestType, snapshot.UsernameLabel: source.UserName,
		snapshot.HostnameLabel: source.Host, snapshot.PathLabel: source.Path,
		RequesterTag: requester, UploaderTag: Uploader,
	})
	if err != nil {
		return nil, err
	}
	var newest *snapshot.Manifest
	for _, one := range found {
		if one.IncompleteReason == "" && one.RootEntry != nil &&
			(newest == nil || one.StartTime.After(newest.StartTime)) {
			newest = one
		}
	}
	return newest, nil
}

// Load is what is stored as a snapshot.
type Load struct {
	Source     snapshot.SourceInfo
	Root       fs.Directory
	Tags       map[string]string    // RequesterTag, UploaderTag and KeyTag among them
	Previous   []*snapshot.Manifest // whose unchanged files are not read
	Compressor string
	Files      int // how many files are read at once
	Progress   upload.Progress
	// Accept returns an error if the snapshot must not be stored. It is called when everything was read.
	Accept func(*snapshot.Manifest) error
}

// Store stores a snapshot and returns it. If it fails, or ctx ends, there is no snapshot, but what was uploaded is kept
// for the next attempt.
func Store(ctx context.Context, w repo.RepositoryWriter, load *Load) (*snapshot.Manifest, error) {
	policies, err := applyPolicy(ctx, w, load.Source, newPolicy(load.Compressor, load.Files))
	if err != nil {
		return nil, fmt.Errorf("set the policy of %s: %w", load.Source.Path, err)
	}
	uploader := upload.NewUploader(w)
	uploader.Progress = load.Progress
	uploader.DisableIgnoreRules = true
	uploader.CheckpointLabels, uploader.CheckpointInterval = load.Tags, checkpointInterval
	lasting, release := lastingFor(ctx, uploader.Cancel)
	defer release()
	stored, err := uploader.Upload(lasting, load.Root, policies, load.Source, load.Previous...)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && stored.IncompleteReason != "" {
		err = fmt.Errorf("kopia has not read everything: %s", stored.IncompleteReason)
	}
	if err == nil {
		err = load.Accept(stored)
	}
	if dropped := dropCheckpoints(lasting, w, load.Tags[KeyTag]); err == nil {
		err = dropped
	}
	if err != nil {
		return nil, errors.Join(err, w.Flush(lasting))
	}
	stored.Tags, stored.Description, stored.Pins = load.Tags, description, []string{pin}
	if _, err := snapshot.SaveSnapshot(ctx, w, stored); err != nil {
		return nil, fmt.Errorf("save the snapshot: %w", err)
	}
	if _, err := policy.ApplyRetentionPolicy(ctx, w, load.Source, true); err != nil {
		return nil, fmt.Errorf("apply the retention of %s: %w", load.Source.Path, err)
	}
	if err := w.Flush(ctx); err != nil {
		return nil, fmt.Errorf("write the snapshot: %w", err)
	}
	return stored, nil
}

// checkpointInterval is how much of the work is lost at most if the process is killed.
const checkpointInterval = 5 * time.Minute

// grace is how long a load may work on after it was cancelled, to keep what was uploaded.
const grace = 20 * time.Second

// lastingFor calls cancel when ctx ends, and returns a context that ends some time later: kopia loses what it has
// uploaded if its context ends, and not if its upload is cancelled.
func lastingFor(ctx context.Context, cancel func()) (lasting context.Context, release func()) {
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cancel()
		time.AfterFunc(grace, end)
	})
	return lasting, func() {
		stop()
		end()
	}
}

// dropCheckpoints removes the incomplete snapshots of a load, which kopia makes at each checkpoint.
func dropCheckpoints(ctx context.Context, w repo.RepositoryWriter, key string) error {
	found, err := find(ctx, w, map[string]string{manifest.TypeLabelKey: snapshot.ManifestType, KeyTag: key})
	if err != nil {
		return err
	}
	for _, one := range found {
		if one.IncompleteReason == "" {
			continue
		}
		if err := w.DeleteManifest(ctx, one.ID); err != nil {
			return fmt.Errorf("remove the checkpoint %s: %w", one.ID, err)
		}
	}
	return nil
}

// IsOfBlocks reports whether a snapshot is one of BlockUploader.
func IsOfBlocks(of *snapshot.Manifest) bool { return of.Tags[UploaderTag] == BlockUploader }

// DeviceSize returns how many bytes of the stored file were on the block device of a snapshot; 0 means all of them.
func DeviceSize(of *snapshot.Manifest) (int64, error) {
	if !IsOfBlocks(of) {
		return 0, nil
	}
	size, err := strconv.ParseInt(of.Tags[deviceSizeTag], 10, 64)
	if err != nil || size <= 0 {
		return 0, fmt.Errorf("the tag %s of snapshot %s is %q, want a number of bytes", deviceSizeTag, of.ID,
			of.Tags[deviceSizeTag])
	}
	return size, nil
}

// Size returns the size of the files of a snapshot, and how many there are.
func Size(of *snapshot.Manifest) (bytes, files int64) {
	if of.RootEntry == nil || of.RootEntry.DirSummary == nil {
		return of.Stats.TotalFileSize, int64(of.Stats.TotalFileCount)
	}
	summary := of.RootEntry.DirSummary
	return summary.TotalFileSize, summary.TotalFileCount
}
