package contents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
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
	name    string
	source  Source
	scratch *scratch
	turn    chan struct{} // held by the one who changes now
	now     state
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
	m := &Manifest{name: name, source: source, turn: make(chan struct{}, 1),
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

// fetch copies the manifest to a temporary file, unless it is at hand, because many parts of it will be read.
func (m *Manifest) fetch(ctx context.Context) error {
	if _, ok := m.source.(atHand); ok {
		return nil
	}
	content, err := m.source.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // only read from
	file, err := m.scratch.file()
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	fetched, err := manifest.Open(ctx, file.source())
	if err != nil {
		return err
	}
	m.source, m.now = file.source(), state{file: fetched}
	return nil
}

// state returns what is known of the manifest: the blocks too, if the caller needs them.
func (m *Manifest) state(ctx context.Context, blocks bool) (state, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return state{}, context.Cause(ctx)
	}
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

// indexed returns what is known of the manifest, with the index.
func (m *Manifest) indexed(ctx context.Context) (state, error) {
	if now, err := m.state(ctx, true); err != nil || now.index != nil {
		return now, err
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return state{}, context.Cause(ctx)
	}
	if m.now.index != nil { // another call has made it
		return m.now, nil
	}
	err := m.fetch(ctx)
	if err == nil && m.now.blocks == nil {
		m.now.blocks, err = m.now.file.Blocks(ctx)
	}
	if err == nil {
		m.now.index, err = newIndex(ctx, m.now.file, m.now.blocks, m.scratch)
	}
	return m.now, m.failed(err)
}

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
	files []*os.File
}

// scratchFile is a temporary file that is written from its beginning.
type scratchFile struct {
	of   *scratch
	file *os.File
	size int64
}

func (s *scratch) file() (*scratchFile, error) {
	file, err := os.CreateTemp(s.dir, "cleat-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // fails on systems that keep open files
	s.files = append(s.files, file)
	return &scratchFile{of: s, file: file}, nil
}

// Write implements io.Writer.
func (f *scratchFile) Write(content []byte) (int, error) {
	if f.of.left -= int64(len(content)); f.of.left < 0 {
		return 0, errors.New("the manifest is larger than the space for temporary files allows")
	}
	n, err := f.file.Write(content)
	f.size += int64(n)
	return n, err
}

func (f *scratchFile) source() Source { return AtHand(f.file, f.size) }

func (s *scratch) close() (failed error) {
	for _, file := range s.files {
		failed = errors.Join(failed, file.Close())
		_ = os.Remove(file.Name()) // gone already where that was possible
	}
	s.files = nil
	return failed
}
