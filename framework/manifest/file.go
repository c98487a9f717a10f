package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// ErrNoItem is the error of File.Get for an item that is not in the manifest.
const ErrNoItem = Error("the item is not in the manifest")

// Sizes of reads, in bytes.
const (
	tailSize  = 128 << 10 // enough for the index of a million items
	headSize  = 64 << 10  // of the start, which has the header
	maxHeader = MaxLine   // before compression
	maxIndex  = 64 << 20  // before compression, for some 300 million items
)

// File reads single items of a manifest through the index at its end. It is safe for concurrent use if its Ranger is.
type File struct {
	ranger Ranger
	roots  *index // the parts of the index
	tail   []byte // the end of the file
	begin  int64  // where the tail begins
}

// Open reads the end of a manifest, with one request. The error is ErrNoIndex if there is no index.
func Open(ctx context.Context, ranger Ranger) (*File, error) {
	tail, size, err := ranger.Tail(ctx, tailSize)
	if err != nil {
		return nil, fmt.Errorf("read the end of the manifest: %w", err)
	}
	if int64(len(tail)) != min(size, tailSize) {
		return nil, fmt.Errorf("the end of a manifest of %d bytes has %d bytes, want %d", size, len(tail),
			min(size, tailSize))
	}
	offset, length, err := decodeFooter(tail, size)
	if err != nil {
		return nil, err
	}
	f := &File{ranger: ranger, tail: tail, begin: size - int64(len(tail))}
	last, err := f.read(ctx, offset, length)
	if err != nil {
		return nil, err
	}
	roots, ok := bytes.CutPrefix(last, []byte(rootsStart))
	end := bytes.LastIndex(roots, []byte("],\"count\":"))
	if !ok || end < 0 {
		return nil, fmt.Errorf("manifest: at byte %d: want the parts of the index", offset)
	}
	f.roots = newIndex(roots[:end], offset)
	return f, nil
}

// read returns the uncompressed content of a part of the file, from the tail if that has it.
func (f *File) read(ctx context.Context, offset, length int64) ([]byte, error) {
	var content io.Reader
	if offset >= f.begin {
		content = bytes.NewReader(f.tail[offset-f.begin:][:length])
	} else {
		if length > maxIndex {
			return nil, fmt.Errorf("the index of the manifest has %d bytes, want at most %d", length, maxIndex)
		}
		stream, err := f.ranger.ReadRange(ctx, offset, length)
		if err != nil {
			return nil, fmt.Errorf("read the index of the manifest: %w", err)
		}
		defer stream.Close() //nolint:errcheck // it was only read
		content = io.LimitReader(stream, length)
	}
	decompressed, err := decompressAll(content, maxIndex)
	if err != nil {
		return nil, fmt.Errorf("manifest: index at byte %d: %w", offset, err)
	}
	return decompressed, nil
}

// blocks returns the blocks in which items of ref may be.
func (f *File) blocks(ctx context.Context, ref Ref) ([]block, error) {
	parts, err := f.roots.find(ref)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	first := parts[0]
	lines, err := f.read(ctx, first.At, parts[len(parts)-1].end()-first.At)
	if err != nil {
		return nil, err
	}
	blocks := newIndex(lines, first.At)
	if len(blocks.lines) == 0 {
		return nil, fmt.Errorf("the index at byte %d is empty", first.At)
	}
	switch start, err := blocks.block(0); {
	case err != nil:
		return nil, err
	case start.First != first.First:
		return nil, fmt.Errorf("the index at byte %d begins with %s, want %s", first.At, start.First, first.First)
	}
	return blocks.find(ref)
}

// Header reads the header of the manifest.
func (f *File) Header(ctx context.Context) (Header, error) {
	stream, err := f.ranger.ReadRange(ctx, 0, min(headSize, f.roots.end))
	if err != nil {
		return Header{}, fmt.Errorf("read the header of the manifest: %w", err)
	}
	defer stream.Close() //nolint:errcheck // it was only read
	decompressed, err := gzip.NewReader(bufio.NewReader(stream))
	if err != nil {
		return Header{}, fmt.Errorf("header of the manifest: %w", err)
	}
	decompressed.Multistream(false)
	content, err := io.ReadAll(io.LimitReader(decompressed, maxHeader))
	if err != nil {
		return Header{}, fmt.Errorf("header of the manifest: %w", err)
	}
	r := newReader(bytes.NewReader(content))
	if err := r.begin(); err != nil {
		return Header{}, fmt.Errorf("header of the manifest: %w", err)
	}
	return r.header, nil
}

// Get returns the item that ref names by group, resource, namespace and name, with one request. Of several versions it
// is the first. The error is ErrNoItem if there is none.
func (f *File) Get(ctx context.Context, ref Ref) (*Item, error) {
	if ref.Resource == "" || ref.Name == "" {
		return nil, errors.New("an item of a manifest is found by its resource and name")
	}
	for item, err := range f.Items(ctx, ref) {
		return item, err
	}
	return nil, ErrNoItem
}

// Items yields the items of a resource, or of a resource and namespace, or of the one name that ref has, in the order
// of the manifest, with one request. All items are meant if the resource is empty. Nothing comes after an error.
func (f *File) Items(ctx context.Context, ref Ref) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		if err := f.items(ctx, ref, func(item *Item) bool { return yield(item, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

func (f *File) items(ctx context.Context, ref Ref, yield func(*Item) bool) error {
	found, err := f.blocks(ctx, ref)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return f.readBlocks(ctx, found, ref.Name, func(item *Item) bool {
		return within(keyOf(item), ref) != 0 || yield(item)
	})
}

// readBlocks reads blocks that follow each other. If name is not empty, it need not pass on items of other names.
func (f *File) readBlocks(ctx context.Context, all []block, name string, yield func(*Item) bool) error {
	if len(all) == 0 {
		return nil
	}
	first, last := all[0], all[len(all)-1]
	stream, err := f.ranger.ReadRange(ctx, first.At, last.end()-first.At)
	if err != nil {
		return fmt.Errorf("read items of the manifest: %w", err)
	}
	defer stream.Close() //nolint:errcheck // it was only read
	for _, b := range all {
		items, err := b.read(stream, name)
		if err != nil {
			return fmt.Errorf("manifest: items at byte %d: %w", b.At, err)
		}
		for _, item := range items {
			if !yield(item) {
				return nil
			}
		}
	}
	return nil
}

// Block is a part of a file that can be read without the others: some consecutive items.
type Block struct {
	First Ref   // the group, resource, namespace and name of the first item
	Items int64 // their number
	in    block
}

// Blocks reads the whole index. The blocks are in the order of their items, one after the other.
func (f *File) Blocks(ctx context.Context) ([]Block, error) {
	all, err := f.blocks(ctx, Ref{})
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	blocks := make([]Block, len(all))
	for i, b := range all {
		first := Ref{Group: b.First.Group, Resource: b.First.Resource, Namespace: b.First.Namespace, Name: b.First.Name}
		blocks[i] = Block{First: first, Items: b.Items, in: b}
	}
	return blocks, nil
}

// Read yields the items of blocks, which must follow each other, with one request. Nothing comes after an error.
func (f *File) Read(ctx context.Context, blocks []Block) iter.Seq2[*Item, error] {
	all := make([]block, len(blocks))
	for i, b := range blocks {
		all[i] = b.in
	}
	return func(yield func(*Item, error) bool) {
		if err := f.readBlocks(ctx, all, "", func(item *Item) bool { return yield(item, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// Compare compares what Refs name in the order of manifests: by group, resource, namespace and name.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(strings.Compare(r.Group, other.Group), strings.Compare(r.Resource, other.Resource),
		strings.Compare(r.Namespace, other.Namespace), strings.Compare(r.Name, other.Name))
}
