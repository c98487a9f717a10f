// Command bare moves a volume by nothing but the packages of kopia, with the settings of the mover and without its
// checks. The speed of the mover is measured against it:
//
//	bare create REPOSITORY STATE
//	bare backup|restore REPOSITORY STATE VOLUME [SNAPSHOT]
//
// REPOSITORY is a directory, and STATE one for the config. backup prints the id of the snapshot.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/kopia/kopia/fs/localfs"
	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/blob/filesystem"
	"github.com/kopia/kopia/repo/manifest"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/policy"
	"github.com/kopia/kopia/snapshot/restore"
	"github.com/kopia/kopia/snapshot/snapshotfs"
	"github.com/kopia/kopia/snapshot/upload"
	"golang.org/x/sys/unix"
)

const password = "static-passw0rd"

func main() {
	args := slices.Concat(os.Args[1:], make([]string, 5))
	if err := run(context.Background(), args[0], args[1], args[2], args[3], args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, action, repository, state, volume, snapshot string) (err error) {
	config := filepath.Join(state, "config")
	if action == "create" {
		return create(ctx, repository, config)
	}
	opened, err := repo.Open(ctx, config, password, &repo.Options{DisableRepositoryLog: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close(ctx)) }()
	switch action {
	case "backup":
		return repo.WriteSession(ctx, opened, repo.WriteSessionOptions{}, func(ctx context.Context, w repo.RepositoryWriter,
		) error {
			return backUp(ctx, w, volume)
		})
	case "restore":
		return bringBack(ctx, opened, volume, snapshot)
	}
	return fmt.Errorf("there is no action %q", action)
}

func create(ctx context.Context, repository, config string) error {
	st, err := filesystem.New(ctx, &filesystem.Options{Path: repository}, true)
	if err != nil {
		return err
	}
	return errors.Join(initialize(ctx, st, config), st.Close(ctx))
}

func initialize(ctx context.Context, st blob.Storage, config string) error {
	if err := repo.Initialize(ctx, st, nil, password); err != nil {
		return err
	}
	return repo.Connect(ctx, config, st, password, nil) // without caches
}

func backUp(ctx context.Context, w repo.RepositoryWriter, volume string) error {
	root, err := localfs.Directory(volume)
	if err != nil {
		return err
	}
	source := snapshot.SourceInfo{UserName: "default", Host: "default", Path: volume}
	parents, err := snapshot.ListSnapshots(ctx, w, source)
	if err != nil {
		return err
	}
	files, above := policy.OptionalInt(runtime.NumCPU()), policy.OptionalInt64(2<<30)
	policies := policy.BuildTree(nil, &policy.Policy{
		CompressionPolicy: policy.CompressionPolicy{CompressorName: "zstd-fastest"},
		UploadPolicy:      policy.UploadPolicy{MaxParallelFileReads: &files, ParallelUploadAboveSize: &above},
	})
	uploader := upload.NewUploader(w)
	uploader.DisableIgnoreRules = true
	stored, err := uploader.Upload(ctx, root, policies, source, newest(parents)...)
	if err != nil {
		return err
	}
	id, err := snapshot.SaveSnapshot(ctx, w, stored)
	fmt.Println(id)
	return err
}

func newest(of []*snapshot.Manifest) (newest []*snapshot.Manifest) {
	for _, one := range of {
		if newest == nil || one.StartTime.After(newest[0].StartTime) {
			newest = []*snapshot.Manifest{one}
		}
	}
	return newest
}

func bringBack(ctx context.Context, r repo.Repository, volume, id string) error {
	of, err := snapshot.LoadSnapshot(ctx, r, manifest.ID(id))
	if err != nil {
		return err
	}
	root, err := snapshotfs.SnapshotRoot(r, of)
	if err != nil {
		return err
	}
	output := &restore.FilesystemOutput{
		TargetPath: volume, OverwriteDirectories: true, OverwriteFiles: true, OverwriteSymlinks: true,
	}
	if err := output.Init(ctx); err != nil {
		return err
	}
	if _, err := restore.Entry(ctx, r, output, root, restore.Options{
		Parallel: runtime.NumCPU(), RestoreDirEntryAtDepth: math.MaxInt32, Cancel: make(chan struct{}),
	}); err != nil {
		return err
	}
	dir, err := os.Open(volume)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
}
