package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"
)

// Backup writes the files of a directory into a snapshot. The files must not change meanwhile: a changed file is an
// error. To continue an interrupted backup, call Backup again.
func (m *Mover) Backup(ctx context.Context, directory, snapshot string, progress *Progress) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := scan(ctx, root)
	if err != nil {
		return fmt.Errorf("read %s: %w", directory, err)
	}
	known, err := m.readIndexes(ctx, snapshot)
	if err != nil {
		return err
	}
	progress.begin(entries)
	b := &backup{Mover: m, snapshot: snapshot, root: root, entries: entries, progress: progress}
	pieces := b.plan(known)
	progress.start()
	if err := b.send(ctx, pieces); err != nil {
		return err
	}
	text, err := seal(manifest{Entries: entries})
	if err != nil {
		return err
	}
	return m.put(ctx, manifestKey(snapshot), text)
}

// scan returns the contents of a directory.
func scan(ctx context.Context, root *os.Root) ([]entry, error) {
	var entries []entry
	err := fs.WalkDir(root.FS(), ".", func(name string, found fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		info, err := found.Info()
		if err != nil {
			return err
		}
		e := entry{Path: name, Mode: info.Mode(), Modified: info.ModTime().UTC()}
		switch e.Mode.Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			if e.Link, err = root.Readlink(name); err != nil {
				return err
			}
		case 0:
			e.Size = info.Size()
		default:
			return fmt.Errorf("%s is %s: only files, directories and symbolic links can be moved", name, e.Mode)
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// readIndexes returns the chunks that an interrupted backup has written. The chunks of a damaged index are written
// again.
func (m *Mover) readIndexes(ctx context.Context, snapshot string) (map[identity]chunk, error) {
	keys, err := m.list(ctx, indexKey(snapshot, "")+"/")
	if err != nil {
		return nil, err
	}
	indexes := make([]index, len(keys))
	reading, reads := errgroup.WithContext(ctx)
	reading.SetLimit(m.Streams)
	for i, key := range keys {
		reading.Go(func() error {
			text, err := m.get(reads, key)
			if err != nil {
				return err
			}
			if unseal(text, &indexes[i]) != nil {
				indexes[i] = index{}
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	known := map[identity]chunk{}
	for _, read := range indexes {
		for _, c := range read.Chunks {
			known[identify(c.Path, c.Size, c.Modified, c.Offset, c.Length)] = c.chunk
		}
	}
	return known, nil
}

// backup is one call of Backup.
type backup struct {
	*Mover
	snapshot string
	root     *os.Root
	entries  []entry
	progress *Progress
}

// piece is a chunk of an entry that has to be sent.
type piece struct {
	entry *entry
	chunk *chunk
}

// plan divides the files into chunks, and returns the ones that are not known yet.
func (b *backup) plan(known map[identity]chunk) []piece {
	var pieces []piece
	for i := range b.entries {
		e := &b.entries[i]
		for at := int64(0); at < e.Size; at += int64(b.PackSize) {
			e.Chunks = append(e.Chunks, chunk{Offset: at, Length: min(e.Size-at, int64(b.PackSize))})
		}
		for j := range e.Chunks {
			c := &e.Chunks[j]
			if sent, ok := known[identify(e.Path, e.Size, e.Modified, c.Offset, c.Length)]; ok {
				*c = sent
				b.progress.moved(e.Path, c.Length)
				continue
			}
			pieces = append(pieces, piece{e, c})
		}
	}
	return pieces
}

// send reads pieces into packs, and sends several packs at a time.
func (b *backup) send(ctx context.Context, pieces []piece) error {
	sending, sends := errgroup.WithContext(ctx)
	sending.SetLimit(b.Streams)
	for len(pieces) > 0 && sends.Err() == nil {
		n, size := 0, int64(0)
		for n < len(pieces) && (n == 0 || size+pieces[n].chunk.Length <= int64(b.PackSize)) {
			size += pieces[n].chunk.Length
			n++
		}
		pack := pieces[:n]
		pieces = pieces[n:]
		sending.Go(func() error { return b.sendPack(sends, pack, size) })
	}
	return sending.Wait()
}

// sendPack reads and sends one pack, and then its index, by which the next attempt finds it.
func (b *backup) sendPack(ctx context.Context, pieces []piece, size int64) error {
	if err := b.throttle(ctx, int(size)); err != nil {
		return err
	}
	content := make([]byte, 0, size)
	for _, p := range pieces {
		p.chunk.At = int64(len(content))
		content = content[:p.chunk.At+p.chunk.Length]
		own := content[p.chunk.At:]
		if err := b.read(p, own); err != nil {
			return fmt.Errorf("read %s: %w", p.entry.Path, err)
		}
		p.chunk.SHA256 = sumOf(own)
	}
	sum := sumOf(content)
	if err := b.put(ctx, packKey(b.snapshot, sum), content); err != nil {
		return err
	}
	var list index
	for _, p := range pieces {
		p.chunk.Pack = sum
		list.Chunks = append(list.Chunks, indexed{Path: p.entry.Path, Size: p.entry.Size, Modified: p.entry.Modified,
			chunk: *p.chunk})
	}
	text, err := seal(list)
	if err != nil {
		return err
	}
	if err := b.put(ctx, indexKey(b.snapshot, sumOf(text)), text); err != nil {
		return err
	}
	for _, p := range pieces {
		b.progress.moved(p.entry.Path, p.chunk.Length)
	}
	return nil
}

// read reads a piece of a file, which must not have changed since scan.
func (b *backup) read(p piece, content []byte) error {
	file, err := b.root.Open(p.entry.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.ReadAt(content, p.chunk.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	info, err2 := file.Stat()
	if err2 != nil {
		return err2
	}
	if err != nil || info.Size() != p.entry.Size || !info.ModTime().Equal(p.entry.Modified) {
		return errors.New("it changed during the backup: stop what writes to it, or give the mover a snapshot of the volume")
	}
	return nil
}
