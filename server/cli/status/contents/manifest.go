package contents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Source is the file of a manifest, on this machine or elsewhere. It can be used concurrently.
type Source interface {
	manifest.Ranger
	// Open returns the content from its beginning, as it is stored.
	Open(ctx context.Context) (io.ReadCloser, error)
}

// AtHand returns the source of a file on this machine, such as a download in a temporary file.
func AtHand(file io.ReaderAt, size int64) Source {
	return atHand{manifest.NewRanger(file, size), io.NewSectionReader(file, 0, size)}
}

type atHand struct {
	manifest.Ranger
	whole *io.SectionReader
}

// Open implements Source.
func (s atHand) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.whole, 0, s.whole.Size())), nil
}

// Options are how a manifest may use the disk.
type Options struct {
	// Dir is the directory of temporary files; empty for that of the system.
	Dir string
	// MaxBytes is what all temporary files of a manifest may have together; 0 for DefaultMaxBytes.
	MaxBytes int64
}

// DefaultMaxBytes is enough for manifests of more than ten million items.
const DefaultMaxBytes = 2 << 30

// Manifest is the manifest of a backup. It can be used concurrently.
type Manifest struct {
	name     string
	indexing turn // held by the one who makes an index, with the next two
	source   Source
	scratch  *scratch
	turn     turn // held by the one who uses now
	now      state
}

// state is what is known of a manifest.
type state struct {
	file   *manifest.File
	blocks []manifest.Block // nil until they are needed
	index  *index           // nil until it is needed
}

// Open opens a manifest. name is what users call it, for messages. A manifest without an index at its end, such as one
// that was compressed again, is written anew to a temporary file. The source must stay open until Close, which does not
// close it.
func Open(ctx context.Context, name string, source Source, options Options) (*Manifest, error) {
	m := &Manifest{name: name, source: source, indexing: newTurn(), turn: newTurn(),
		scratch: &scratch{dir: options.Dir, left: cmp.Or(options.MaxBytes, DefaultMaxBytes)}}
	file, err := manifest.Open(ctx, source)
	if errors.Is(err, manifest.ErrNoIndex) {
		file, err = m.rewrite(ctx)
	}
	if err != nil {
		return nil, m.failed(errors.Join(err, m.Close()))
	}
	m.now.file = file
	return m, nil
}

// Close removes what the manifest has on the disk.
func (m *Manifest) Close() error { return m.scratch.close() }

// Name returns the name that Open got.
func (m *Manifest) Name() string { return m.name }

// Header returns the header of the manifest.
func (m *Manifest) Header(ctx context.Context) (manifest.Header, error) {
	now, err := m.state(ctx, false)
	if err != nil {
		return manifest.Header{}, err
	}
	header, err := now.file.Header(ctx)
	return header, m.failed(err)
}

// rewrite writes the manifest to a temporary file, which is the source from then on.
func (m *Manifest) rewrite(ctx context.Context) (*manifest.File, error) {
	content, err := m.source.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // only read from
	in, err := manifest.NewReader(content)
	if err != nil {
		return nil, err
	}
	file, err := m.scratch.file()
	if err != nil {
		return nil, err
	}
	header := in.Header()
	header.Backup.Name = cmp.Or(header.Backup.Name, filepath.Base(m.name))
	out, err := manifest.NewWriter(file, header, manifest.Options{Dir: m.scratch.dir})
	if err != nil {
		return nil, err
	}
	defer out.Abort()
	for item, err := range in.Items() {
		if err == nil {
			err = cmp.Or(out.Add(item), ctx.Err())
		}
		if err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	m.source = file.source()
	return manifest.Open(ctx, m.source)
}

// fetched copies the manifest to a temporary file, unless it is at hand, because many parts of it will be read.
func (m *Manifest) fetched(ctx context.Context, now state) (_ state, err error) {
	if _, ok := m.source.(atHand); ok {
		return now, nil
	}
	content, err := m.source.Open(ctx)
	if err != nil {
		return now, err
	}
	defer func() { _ = content.Close() }() // only read from
	file, err := m.scratch.file()
	if err != nil {
		return now, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.discard())
		}
	}()
	if _, err := io.Copy(file, content); err != nil {
		return now, err
	}
	copied := file.source()
	if now.file, err = manifest.Open(ctx, copied); err != nil {
		return now, err
	}
	if now.blocks, err = now.file.Blocks(ctx); err != nil {
		return now, err
	}
	if err := m.turn.take(ctx); err != nil {
		return now, err
	}
	defer m.turn.give()
	m.source, m.now = copied, now
	return now, nil
}

// state returns what is known of the manifest: the blocks too, if the caller needs them.
func (m *Manifest) state(ctx context.Context, blocks bool) (state, error) {
	if err := m.turn.take(ctx); err != nil {
		return state{}, err
	}
	defer m.turn.give()
	if blocks && m.now.blocks == nil {
		all, err := m.now.file.Blocks(ctx)
		if err != nil {
			return state{}, m.failed(err)
		}
		m.now.blocks = all
	}
	return m.now, nil
}

// Index makes an index, unless there is one, for which it reads all items once. Who asks one manifest for several pages
// calls it first: lists, trees and differences need no index, but they are slow in large manifests without one. The
// methods that cannot do without call it.
func (m *Manifest) Index(ctx context.Context) error {
	_, err := m.indexed(ctx)
	return err
}

// indexed returns what is known of the manifest, with the index. Who needs no index does not wait for one.
func (m *Manifest) indexed(ctx context.Context) (state, error) {
	if now, err := m.state(ctx, true); err != nil || now.index != nil {
		return now, err
	}
	if err := m.indexing.take(ctx); err != nil {
		return state{}, err
	}
	defer m.indexing.give()
	now, err := m.state(ctx, true)
	if err != nil || now.index != nil { // another call has made it
		return now, err
	}
	if now, err = m.fetched(ctx, now); err == nil {
		now.index, err = newIndex(ctx, now.file, now.blocks, m.scratch)
	}
	if err == nil {
		err = m.turn.take(ctx)
	}
	if err != nil {
		return state{}, m.failed(err)
	}
	defer m.turn.give()
	m.now = now
	return now, nil
}

// turn is held by one at a time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) give() { <-t }

// of yields the items of a resource, of a resource and namespace, or of a name, by reading the one part that has them.
func (m *Manifest) of(ctx context.Context, ref manifest.Ref) iter.Seq2[*manifest.Item, error] {
	return func(yield func(*manifest.Item, error) bool) {
		now, err := m.state(ctx, false)
		if err != nil {
			yield(nil, err)
			return
		}
		for item, err := range now.file.Items(ctx, ref) {
			if !yield(item, m.failed(err)) {
				return
			}
		}
	}
}

// failed adds the name of the manifest to an error.
func (m *Manifest) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", layout.OneLine(m.name), err)
}

// scratch makes temporary files, with a limit for their size.
type scratch struct {
	dir   string
	left  int64 // bytes
	files []*spool.File
}

// scratchFile is a temporary file that is written from its beginning.
type scratchFile struct {
	of   *scratch
	file *spool.File
}

func (s *scratch) file() (*scratchFile, error) {
	file, err := spool.New(s.dir, "a manifest")
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, file)
	return &scratchFile{of: s, file: file}, nil
}

// Write implements io.Writer.
func (f *scratchFile) Write(content []byte) (int, error) {
	if int64(len(content)) > f.of.left {
		return 0, errors.New("the manifest is larger than the space for temporary files allows")
	}
	n, err := f.file.Write(content)
	f.of.left -= int64(n)
	return n, err
}

// discard removes the file, so that others can have its space.
func (f *scratchFile) discard() error {
	f.of.left += f.size()
	f.of.files = slices.DeleteFunc(f.of.files, func(file *spool.File) bool { return file == f.file })
	return f.file.Close()
}

func (f *scratchFile) size() int64 { return f.file.Size() }

func (f *scratchFile) source() Source { return AtHand(f.file, f.size()) }

func (s *scratch) close() (failed error) {
	for _, file := range s.files {
		failed = errors.Join(failed, file.Close())
	}
	s.files = nil
	return failed
}
