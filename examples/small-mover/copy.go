package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/cleat-dev/cleat/framework/operations"
)

// copyTree is the work of an operation: it copies directories, and files with their permissions and modification
// times. It returns early when ctx ends, because the operation was cancelled or another process has taken it over.
// Interrupted work is repeated from the beginning, and then skips the files that are already copied.
func copyTree(ctx context.Context, t tree, run *operations.Run) error {
	run.Log().Info("copying", "from", t.From, "to", t.To, "attempt", run.Attempt())
	// An os.Root does not leave its directory, whatever symbolic links it contains.
	from, err := os.OpenRoot(t.From)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.MkdirAll(t.To, 0o755); err != nil {
		return err
	}
	to, err := os.OpenRoot(t.To)
	if err != nil {
		return err
	}
	defer to.Close()

	var done, total int64
	if err := walk(ctx, from, func(_ string, file fs.FileInfo) error {
		if file.Mode().IsRegular() {
			total += file.Size()
		}
		return nil
	}); err != nil {
		return err
	}
	return walk(ctx, from, func(name string, file fs.FileInfo) error {
		switch {
		case file.IsDir():
			return to.MkdirAll(name, file.Mode().Perm()|0o700)
		case !file.Mode().IsRegular():
			return fmt.Errorf("copy %s: %s is %s, and this mover copies files and directories only", t, name, file.Mode())
		}
		run.Report(done, total, "bytes", "copying "+name)
		if err := t.copyFile(from, to, name, file, run, total); err != nil {
			return fmt.Errorf("copy %s: %w", t, err)
		}
		done += file.Size()
		run.Report(done, total, "bytes", "copied "+name)
		return nil
	})
}

// walk calls visit for all paths below root, directories before their contents.
func walk(ctx context.Context, root *os.Root, visit func(name string, file fs.FileInfo) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		file, err := entry.Info()
		if err != nil {
			return err
		}
		return visit(name, file)
	})
}

// copyFile copies one file under a temporary name, and renames it when it is complete.
func (t tree) copyFile(from, to *os.Root, name string, file fs.FileInfo, run *operations.Run, total int64) error {
	switch existing, err := to.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case existing.Size() == file.Size() && existing.ModTime().Equal(file.ModTime()):
		return nil // copied before the process was interrupted
	case !t.Replace:
		return fmt.Errorf("%s exists and differs: restore into an empty volume", name)
	}
	source, err := from.Open(name)
	if err != nil {
		return err
	}
	defer source.Close()
	part := path.Join(path.Dir(name), ".small-mover-"+run.ID())
	target, err := to.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	// The writer counts the bytes, and fails when the operation is cancelled.
	_, err = io.Copy(run.Writer(target, total), source)
	err = errors.Join(err, target.Chmod(file.Mode().Perm()), target.Sync(), target.Close())
	if err == nil {
		err = to.Chtimes(part, file.ModTime(), file.ModTime())
	}
	if err == nil {
		return to.Rename(part, name)
	}
	return errors.Join(err, to.Remove(part))
}
