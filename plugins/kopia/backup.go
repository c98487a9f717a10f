package kopia

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/upload"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// Backup implements dmv1.DataMover.
func (m *mover) Backup(ctx context.Context, input *dmv1.BackupInput) (*dmv1.BackupOutput, error) {
	tags, err := tagsOf(input)
	if err != nil {
		return nil, err
	}
	if err := checkVolume(input.Volume); err != nil {
		return nil, err
	}
	s, err := m.open(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end(ctx)
	b := &backup{session: s, input: input, files: m.config.Parallelism}
	s.settings(input.Settings, map[string]func(string){parallelUpload: s.count(parallelUpload, &b.files)})
	if b.files == 0 {
		b.files = runtime.NumCPU()
	}
	output, err := b.run(ctx, tags)
	return output, s.done(ctx, err)
}

// tagsOf returns the tags of the snapshot, with those by which Velero finds parents.
func tagsOf(input *dmv1.BackupInput) (map[string]string, error) {
	if input.Key == "" {
		return nil, framework.Invalid("the backup has no key")
	}
	if err := repository.CheckTags(input.Tags); err != nil {
		return nil, framework.Invalid("%w", err)
	}
	tags := maps.Clone(input.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[repository.RequesterTag] = input.Source.Requester
	tags[repository.UploaderTag] = repository.Uploader
	tags[repository.KeyTag], tags[repository.NamesTag] = input.Key, repository.EscapedNames
	return tags, nil
}

// pathOf returns the path under which Velero keeps the snapshots of a source.
func pathOf(s dmv1.Source) string {
	volume := s.Claim
	if volume == "" {
		volume = s.Volume
	}
	switch s.Requester {
	case "":
		return "unknown-source/kopia"
	case dmv1.DataUpload:
		return fmt.Sprintf("%s/kopia/%s/%s", s.Requester, s.Namespace, volume)
	default:
		return fmt.Sprintf("%s/kopia/%s/%s/%s", s.Requester, s.Namespace, s.Pod, volume)
	}
}

// checkVolume returns an error unless a volume is there.
func checkVolume(v dmv1.Volume) error {
	if !filepath.IsAbs(v.Path) {
		return framework.Invalid("volume %q is not an absolute path", v.Path)
	}
	info, err := os.Stat(v.Path)
	if err != nil {
		return &volume.Error{Err: err}
	}
	if v.Block == info.IsDir() {
		return framework.Invalid("volume %s is a directory: %t, want %t", v.Path, info.IsDir(), !v.Block)
	}
	return nil
}

// backup is one backup of a volume.
type backup struct {
	*session
	input *dmv1.BackupInput
	files int // that are read at once
	size  int64

	losses   volume.Losses
	uploaded atomic.Int64
	observed
}

func (b *backup) run(ctx context.Context, tags map[string]string) (*dmv1.BackupOutput, error) {
	if b.input.Again {
		stored, err := repository.Stored(ctx, b.Repository, b.input.Key)
		if err != nil {
			return nil, err
		}
		if stored != nil { // the attempt was killed before it could report what the snapshot does not have
			if !b.input.Volume.Block {
				if err := volume.Survey(ctx, b.input.Volume.Path, &b.losses); err != nil {
					return nil, err
				}
			}
			bytes, _ := repository.Size(stored)
			return &dmv1.BackupOutput{SnapshotID: string(stored.ID), Bytes: bytes, Warnings: b.warnings()}, nil
		}
	}
	load := &repository.Load{
		Source: repository.Source(pathOf(b.input.Source)), Tags: tags, Compressor: b.mover.config.Compression, Files: b.files,
		Progress: b, Accept: b.accept,
	}
	parent, err := b.parent(ctx, load.Source)
	if err != nil {
		return nil, err
	}
	if parent != nil {
		load.Previous = append(load.Previous, parent)
	}
	if b.input.Again && !b.input.Volume.Block {
		begun, err := repository.Checkpoint(ctx, b.Repository, b.input.Key)
		if err != nil {
			return nil, err
		}
		if begun != nil {
			load.Previous = append(load.Previous, begun)
		}
	}
	if err := b.source(load); err != nil {
		return nil, err
	}
	counting, stop := context.WithCancel(ctx)
	var walk sync.WaitGroup
	defer walk.Wait()
	defer stop()
	b.total(counting, &walk, parent)
	b.follow(b.numbers)
	writing, w, err := b.NewWriter(ctx, repo.WriteSessionOptions{
		Purpose: "backup", OnUpload: func(n int64) { b.uploaded.Add(n) },
	})
	if err != nil {
		return nil, err
	}
	storing, end := b.untilLost(writing)
	defer end(nil)
	stored, err := repository.Store(storing, w, load)
	if err = errors.Join(err, w.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	bytes, _ := repository.Size(stored)
	return &dmv1.BackupOutput{
		SnapshotID: string(stored.ID), Bytes: bytes, NewBytes: min(b.uploaded.Load(), bytes), Warnings: b.warnings(),
	}, nil
}

// warnings returns the warnings of the call, with what the snapshot does not have.
func (b *backup) warnings() []string {
	for _, warning := range b.losses.Warnings() {
		b.Warn("%s", warning)
	}
	return b.Warned()
}

// parent returns the snapshot whose unchanged files need not be read; nil for none.
func (b *backup) parent(ctx context.Context, source snapshot.SourceInfo) (*snapshot.Manifest, error) {
	if b.input.Full || b.input.Volume.Block {
		return nil, nil //nolint:nilnil // there is none
	}
	if b.input.Parent != "" {
		found, err := repository.Snapshot(ctx, b.Repository, b.input.Parent)
		switch {
		case errors.Is(err, snapshot.ErrSnapshotNotFound):
			framework.Log(ctx).Info("the parent does not exist", "parent", b.input.Parent)
		case err == nil && repository.IsOfBlocks(found):
			framework.Log(ctx).Info("the parent is a snapshot of a block device", "parent", b.input.Parent)
		default:
			return found, err
		}
	}
	if b.input.Source.Requester == "" {
		return nil, nil //nolint:nilnil // snapshots of this source are of different volumes
	}
	return repository.Latest(ctx, b.Repository, source, b.input.Source.Requester)
}

// source sets what is read.
func (b *backup) source(load *repository.Load) (err error) {
	if b.input.Volume.Block {
		load.Root, b.size, err = volume.Device(b.input.Volume.Path)
		return err
	}
	source := volume.Options{Losses: &b.losses, Budget: b.mover.budget}
	for _, one := range load.Previous { // the oldest counts: a file may be that of each of them
		began := one.StartTime.ToTime()
		if b.mover.config.CompareCtime && (source.Unchanged.IsZero() || began.Before(source.Unchanged)) {
			source.Unchanged = began
		}
	}
	load.Root, err = volume.Source(b.input.Volume.Path, source)
	return err
}

// accept returns an error if the snapshot would lack something that exists.
func (b *backup) accept(stored *snapshot.Manifest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed > 0 {
		return &volume.Error{Err: fmt.Errorf("%d files could not be read: %w", b.failed, errors.Join(b.unread...))}
	}
	if bytes, _ := repository.Size(stored); b.input.Volume.Block && bytes != b.size {
		return framework.Errorf("%d of the %d bytes of %s could be read", bytes, b.size, b.input.Volume.Path)
	}
	return nil
}

// total finds the size of the volume: that of the parent is about the same.
func (b *backup) total(ctx context.Context, walk *sync.WaitGroup, parent *snapshot.Manifest) {
	switch {
	case b.input.Volume.Block:
		b.totalBytes.Store(b.size)
		b.totalFiles.Store(1)
	case parent != nil:
		bytes, files := repository.Size(parent)
		b.totalBytes.Store(bytes)
		b.totalFiles.Store(files)
	default:
		walk.Go(func() {
			var bytes, files int64
			err := filepath.WalkDir(b.input.Volume.Path, func(_ string, entry fs.DirEntry, _ error) error {
				if ctx.Err() != nil {
					return fs.SkipAll
				}
				if entry != nil && entry.Type().IsRegular() {
					if info, err := entry.Info(); err == nil {
						bytes, files = bytes+info.Size(), files+1
					}
				}
				return nil // the backup reports what cannot be read
			})
			if err == nil && ctx.Err() == nil {
				b.totalBytes.Store(bytes)
				b.totalFiles.Store(files)
			}
		})
	}
}

func (b *backup) numbers(p *dmv1.Progress) {
	p.DoneBytes, p.DoneFiles = b.doneBytes.Load(), b.doneFiles.Load()
	if total := b.totalBytes.Load(); total > 0 {
		p.TotalBytes = max(total, p.DoneBytes)
	}
	if total := b.totalFiles.Load(); total > 0 {
		p.TotalFiles = max(total, p.DoneFiles)
	}
}

// observed counts what kopia reports. It implements upload.Progress, whose other methods do nothing.
type observed struct {
	upload.NullUploadProgress
	doneBytes, doneFiles, totalBytes, totalFiles atomic.Int64

	unread []error // of the first files that could not be read
	failed int
}

// HashedBytes implements upload.Progress.
func (o *observed) HashedBytes(n int64) { o.doneBytes.Add(n) }

// CachedFile implements upload.Progress.
func (o *observed) CachedFile(_ string, size int64) { o.doneBytes.Add(size) }

// FinishedFile implements upload.Progress.
func (o *observed) FinishedFile(string, error) { o.doneFiles.Add(1) }

// Error implements upload.Progress.
func (b *backup) Error(name string, err error, _ bool) {
	name = strings.TrimPrefix(name, "./")
	for _, gone := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP} { // or it is something else by now
		if errors.Is(err, gone) {
			b.losses.Vanished(name)
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
	if len(b.unread) < 3 {
		b.unread = append(b.unread, fmt.Errorf("%.200q: %w", name, err))
	}
}
