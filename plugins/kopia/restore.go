package kopia

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/snapshot/restore"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// Restore implements dmv1.DataMover.
func (m *mover) Restore(ctx context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	s, err := m.open(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end(ctx)
	r := &restoration{session: s, workers: m.config.Parallelism}
	s.settings(input.Settings, map[string]func(string){
		writeSparse: s.truth(writeSparse, &r.sparse), parallelDownload: s.count(parallelDownload, &r.workers),
	})
	if r.workers == 0 {
		r.workers = runtime.NumCPU()
		if s.place.remote {
			r.workers = max(16, 4*r.workers) // most of them wait for the storage
		}
	}
	output, err := r.run(ctx, input)
	return output, s.done(ctx, err)
}

// restoration is one restore of a volume.
type restoration struct {
	*session
	sparse  bool
	workers int

	doneBytes, totalBytes, doneFiles, totalFiles atomic.Int64
}

func (r *restoration) run(ctx context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	of, err := repository.Snapshot(ctx, r.Repository, input.SnapshotID)
	if err != nil {
		return nil, err
	}
	if err := checkVolume(input.Volume); err != nil {
		return nil, err
	}
	root, err := repository.Root(r.Repository, of)
	if err != nil {
		return nil, err
	}
	bytes, files := repository.Size(of)
	r.totalBytes.Store(bytes)
	r.totalFiles.Store(files)
	r.follow(func(p *dmv1.Progress) {
		p.DoneBytes, p.DoneFiles = r.doneBytes.Load(), r.doneFiles.Load()
		p.TotalBytes, p.TotalFiles = max(r.totalBytes.Load(), p.DoneBytes), max(r.totalFiles.Load(), p.DoneFiles)
	})
	size, err := repository.DeviceSize(of)
	switch {
	case err != nil:
		return nil, framework.Invalid("%w", err)
	case input.Volume.Block:
		bytes, err = r.device(ctx, input.Volume.Path, root, size)
	case repository.IsOfBlocks(of):
		err = framework.Invalid("snapshot %s is one of a block device; restore it into a claim with volumeMode Block", of.ID)
	default:
		err = r.tree(ctx, input.Volume.Path, root)
	}
	if err != nil {
		return nil, err
	}
	return &dmv1.RestoreOutput{Bytes: bytes, Warnings: r.Warned()}, nil
}

// device restores a block device of a size; 0 means the size of what is stored.
func (r *restoration) device(ctx context.Context, path string, root fs.Directory, size int64) (int64, error) {
	bytes, err := volume.WriteDevice(ctx, path, root, size, func(done, total int64) {
		r.doneBytes.Store(done)
		r.totalBytes.Store(total)
	})
	var small *volume.TooSmallError
	if errors.As(err, &small) || errors.Is(err, volume.ErrFiles) {
		err = framework.Invalid("volume %s: %w", path, err)
	}
	return bytes, err
}

// tree restores a directory.
func (r *restoration) tree(ctx context.Context, path string, root fs.Directory) (err error) {
	var before volume.Before
	if r.place.remote && int64(r.cacheMB)<<20/5*4 >= packsCached {
		fetch := newPrefetch(r.Repository)
		defer fetch.fetching.Wait()
		before = fetch
	}
	target, err := volume.NewTarget(path, r.sparse, before, r.mover.budget)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Free()) }()
	cancel := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { close(cancel) })
	defer stop()
	_, err = restore.Entry(ctx, r.Repository, target, root, restore.Options{
		Parallel: r.workers, RestoreDirEntryAtDepth: math.MaxInt32, Cancel: cancel,
		ProgressCallback: func(_ context.Context, stats restore.Stats) {
			r.doneBytes.Store(stats.RestoredTotalFileSize)
			r.doneFiles.Store(int64(stats.RestoredFileCount))
		},
	})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	for _, warning := range target.Warnings() {
		r.Warn("%s", warning)
	}
	r.report("writing to the disk")
	return target.Sync()
}
