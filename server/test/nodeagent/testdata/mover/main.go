// Command mover is a data mover for tests. It stores each snapshot as a copy of the directory, in the location of a
// file store.
//
// A file "hold" in a volume delays its backup until the file is removed, a file "hold" in a snapshot its restores, and
// one in a repository its maintenance, which fails if a volume is being backed up.
package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
)

func main() {
	newMover := func(context.Context, *framework.Setup) (dmv1.DataMover, error) { return mover{}, nil }
	framework.Serve(dmv1.Register("cleat.dev/restic", newMover, framework.WithRoles(framework.RoleMaintainsAlone)),
		dmv1.Register("example.io/mover", newMover))
}

type mover struct{}

func place(r dmv1.Repository, snapshot string) string {
	return filepath.Join(r.Config["path"], r.Config["bucket"], r.Path, snapshot)
}

func (mover) Backup(ctx context.Context, input *dmv1.BackupInput) (*dmv1.BackupOutput, error) {
	busy := place(input.Repository, busyPrefix+input.Key)
	_ = os.WriteFile(busy, nil, 0o600) // without a repository, the call fails below
	defer func() { _ = os.Remove(busy) }()
	if err := wait(ctx, input.Volume.Path, input.Report); err != nil {
		return nil, err
	}
	if _, err := os.Stat(place(input.Repository, "")); err != nil {
		return nil, framework.NotFound("no repository %s", input.Repository)
	}
	id := "copy-" + input.Key
	target := place(input.Repository, id)
	if err := os.CopyFS(target, os.DirFS(input.Volume.Path)); err != nil {
		return nil, err
	}
	size, err := sizeOf(target)
	return &dmv1.BackupOutput{SnapshotID: id, Bytes: size, NewBytes: size}, err
}

func (mover) Restore(ctx context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	from := place(input.Repository, input.SnapshotID)
	if _, err := os.Stat(from); err != nil {
		return nil, framework.NotFound("no snapshot %s in %s", input.SnapshotID, input.Repository)
	}
	if err := wait(ctx, from, input.Report); err != nil {
		return nil, err
	}
	if err := os.CopyFS(input.Volume.Path, os.DirFS(from)); err != nil {
		return nil, err
	}
	size, err := sizeOf(from)
	return &dmv1.RestoreOutput{Bytes: size}, err
}

// wait returns when a directory has no file "hold".
func wait(ctx context.Context, dir string, report func(dmv1.Progress)) error {
	for step := int64(1); ; step++ {
		if _, err := os.Stat(filepath.Join(dir, "hold")); err != nil {
			return nil
		}
		report(dmv1.Progress{DoneBytes: step, TotalBytes: 1 << 30})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func sizeOf(dir string) (size int64, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

func (mover) Forget(_ context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	for _, id := range input.SnapshotIDs {
		if err := os.RemoveAll(place(input.Repository, id)); err != nil {
			return nil, err
		}
	}
	return &dmv1.ForgetOutput{}, nil
}

// busyPrefix begins the names of files in a repository that are there while backups are made.
const busyPrefix = "busy-"

func (mover) Maintain(ctx context.Context, input *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	log, err := os.OpenFile(place(input.Repository, "maintained"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = log.WriteString("begun\n")
	if err := errors.Join(err, log.Close(), wait(ctx, place(input.Repository, ""), input.Report)); err != nil {
		return nil, err
	}
	if busy, _ := filepath.Glob(place(input.Repository, busyPrefix+"*")); len(busy) > 0 {
		return nil, framework.Errorf("a backup is being made: %v", busy)
	}
	return &dmv1.MaintainOutput{FreedBytes: 7}, nil
}

func (mover) Check(_ context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	_, err := os.Stat(place(input.Repository, ""))
	switch {
	case err == nil:
		return &dmv1.CheckOutput{}, nil
	case input.Create:
		return &dmv1.CheckOutput{Created: true}, os.MkdirAll(place(input.Repository, ""), 0o755)
	default:
		return nil, framework.NotFound("no repository %s", input.Repository)
	}
}
