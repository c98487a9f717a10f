package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
)

// CheckEmpty returns an error if a directory is not empty. A missing directory is empty, and so is the root of a new
// file system.
func CheckEmpty(directory string) error {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("%s is not empty, it has %q: restore into an empty volume", directory, e.Name())
		}
	}
	return nil
}

// Restore writes the files of a snapshot into a directory, which it creates if needed. CheckEmpty comes before the
// first attempt. To continue an interrupted restore, call Restore again.
func (m *Mover) Restore(ctx context.Context, snapshot, directory string, progress *Progress) error {
	read, err := m.readManifest(ctx, snapshot)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	progress.begin(read.Entries)
	r := &restore{Mover: m, snapshot: snapshot, root: root, progress: progress}
	packs, err := r.prepare(ctx, read.Entries)
	if err != nil {
		return err
	}
	progress.start()
	fetching, fetches := errgroup.WithContext(ctx)
	fetching.SetLimit(m.Streams)
	for _, pieces := range packs {
		if fetches.Err() != nil {
			break
		}
		fetching.Go(func() error { return r.fetch(fetches, pieces) })
	}
	// The end of ctx may have prevented the start of fetches.
	if err := cmp.Or(fetching.Wait(), ctx.Err()); err != nil {
		return err
	}
	return r.finish(read.Entries)
}

// restore is one call of Restore.
type restore struct {
	*Mover
	snapshot string
	root     *os.Root
	progress *Progress
}

// prepare makes directories, links and files of the right size, and returns the pieces that are missing, by their
// packs.
func (r *restore) prepare(ctx context.Context, entries []entry) ([][]piece, error) {
	var missing []piece
	for i := range entries {
		e := &entries[i]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch {
		case e.Mode.IsDir():
			if err := errors.Join(r.root.MkdirAll(e.Path, 0o700), r.root.Chmod(e.Path, 0o700)); err != nil {
				return nil, err
			}
		case e.Mode.IsRegular():
			pieces, err := r.missing(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Path, err)
			}
			missing = append(missing, pieces...)
		default:
			if link, err := r.root.Readlink(e.Path); err == nil && link == e.Link {
				continue
			}
			if err := r.root.Symlink(e.Link, e.Path); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(missing, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.chunk.Pack, b.chunk.Pack), cmp.Compare(a.chunk.At, b.chunk.At))
	})
	var packs [][]piece
	for i, p := range missing {
		if i == 0 || p.chunk.Pack != missing[i-1].chunk.Pack {
			packs = append(packs, nil)
		}
		packs[len(packs)-1] = append(packs[len(packs)-1], p)
	}
	return packs, nil
}

// missing returns the pieces of a file whose content an earlier attempt has not written.
func (r *restore) missing(e *entry) ([]piece, error) {
	if err := r.root.Chmod(e.Path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := r.root.OpenFile(e.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	var missing []piece
	for i := range e.Chunks {
		c := &e.Chunks[i]
		if info.Size() > c.Offset {
			content := make([]byte, c.Length)
			if _, err := file.ReadAt(content, c.Offset); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			if sumOf(content) == c.SHA256 {
				r.progress.moved(e.Path, c.Length)
				continue
			}
		}
		missing = append(missing, piece{e, c})
	}
	return missing, file.Truncate(e.Size)
}

// fetch fetches and verifies one pack, and writes its pieces.
func (r *restore) fetch(ctx context.Context, pieces []piece) error {
	var size int64
	for _, p := range pieces {
		size += p.chunk.Length
	}
	if err := r.throttle(ctx, int(size)); err != nil {
		return err
	}
	sum := pieces[0].chunk.Pack
	content, err := r.get(ctx, packKey(r.snapshot, sum))
	if err != nil {
		return err
	}
	if got := sumOf(content); got != sum {
		return fmt.Errorf("pack %s is damaged: its SHA-256 is %s; %s and %d more chunks are lost", sum, got,
			pieces[0].entry.Path, len(pieces)-1)
	}
	for _, p := range pieces {
		if err := r.write(p, content); err != nil {
			return fmt.Errorf("%s: %w", p.entry.Path, err)
		}
		r.progress.moved(p.entry.Path, p.chunk.Length)
	}
	return nil
}

func (r *restore) write(p piece, pack []byte) error {
	if p.chunk.At+p.chunk.Length > int64(len(pack)) {
		return fmt.Errorf("the manifest is damaged: pack %s has only %d bytes", p.chunk.Pack, len(pack))
	}
	content := pack[p.chunk.At:][:p.chunk.Length]
	if got := sumOf(content); got != p.chunk.SHA256 {
		return fmt.Errorf("the manifest is damaged: the SHA-256 at %d of pack %s is %s, want %s", p.chunk.At, p.chunk.Pack,
			got, p.chunk.SHA256)
	}
	file, err := r.root.OpenFile(p.entry.Path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(content, p.chunk.Offset)
	return errors.Join(err, file.Sync(), file.Close())
}

// finish sets modes and modification times, of directories after their contents.
func (r *restore) finish(entries []entry) error {
	for _, e := range slices.Backward(entries) {
		if e.Mode.Type() == fs.ModeSymlink {
			continue // links have no mode, and the standard library cannot set their times
		}
		if err := r.root.Chmod(e.Path, e.Mode); err != nil {
			return err
		}
		if err := r.root.Chtimes(e.Path, e.Modified, e.Modified); err != nil {
			return err
		}
	}
	return nil
}
