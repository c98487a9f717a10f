package manifest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/gzip"
)

// Reader reads a manifest item by item. Its input may be compressed or not.
type Reader struct {
	header  Header
	version int64
	input   *limited
	json    *json.Decoder
	count   int64 // items so far
	last    key   // of the last of them
	total   int64 // items according to the manifest
	err     error // why no more items come; io.EOF at the end
}

// NewReader returns a reader that has read what comes before the items.
func NewReader(input io.Reader) (*Reader, error) {
	content, err := decompressed(bufio.NewReader(input))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	r := newReader(content)
	if err := r.begin(); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return r, nil
}

func newReader(content io.Reader) *Reader {
	r := &Reader{input: &limited{in: content}}
	r.json = json.NewDecoder(r.input)
	return r
}

func decompressed(input *bufio.Reader) (io.Reader, error) {
	if magic, _ := input.Peek(2); string(magic) != "\x1f\x8b" {
		return input, nil
	}
	return gzip.NewReader(input)
}

// Header returns the header of the manifest.
func (r *Reader) Header() Header { return r.header }

// Items yields the items by group, resource, namespace, name and version, once. The manifest was complete and sound if
// they end without an error; nothing comes after an error.
func (r *Reader) Items() iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		for {
			item, err := r.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("manifest: %w", err))
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Load reads a manifest into memory.
func Load(input io.Reader) (*Manifest, Header, error) {
	r, err := NewReader(input)
	if err != nil {
		return nil, Header{}, err
	}
	m := New()
	for item, err := range r.Items() {
		if err != nil {
			return nil, Header{}, err
		}
		if _, err := m.Add(item); err != nil {
			return nil, Header{}, fmt.Errorf("manifest: %w", err)
		}
	}
	return m, r.header, nil
}

// begin reads to the first item.
func (r *Reader) begin() error {
	if err := r.delim('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		field, more, err := r.field()
		if err != nil {
			return err
		}
		if first && field != "manifest" {
			return versionError(0)
		}
		if !more {
			return errors.New("it has no items")
		}
		switch field {
		case "manifest":
			if err := r.value(field, &r.version); err != nil {
				return err
			}
			if r.version != Version {
				return versionError(r.version)
			}
		case "items":
			return r.delim('[')
		default:
			if err := r.headerField(field); err != nil {
				return err
			}
		}
	}
}

func (r *Reader) headerField(field string) error {
	switch field {
	case "formatVersion":
		return r.value(field, &r.header.FormatVersion)
	case "backup":
		return r.value(field, &r.header.Backup)
	case "omittedAnnotations":
		return r.value(field, &r.header.OmittedAnnotations)
	default:
		return r.skip()
	}
}

// next returns the next item, or io.EOF after the last.
func (r *Reader) next() (*Item, error) {
	if r.err != nil {
		return nil, r.err
	}
	item, err := r.item()
	if err == nil && item == nil {
		err = cmp.Or(r.end(), r.complete(), io.EOF)
	}
	r.err = err
	return item, err
}

// complete returns an error unless the number of items is the one in the manifest.
func (r *Reader) complete() error {
	if r.count != r.total {
		return fmt.Errorf("it has %d items, and says that it has %d", r.count, r.total)
	}
	return nil
}

// item returns the next item, or nil at their end.
func (r *Reader) item() (*Item, error) {
	r.input.allow(MaxLine)
	if !r.json.More() {
		return nil, r.delim(']')
	}
	item := &Item{}
	if err := r.value(fmt.Sprintf("item %d", r.count+1), item); err != nil {
		return nil, err
	}
	if err := item.check(); err != nil {
		return nil, fmt.Errorf("item %d: %w", r.count+1, err)
	}
	next := keyOf(item)
	if r.count > 0 {
		if err := sorted(r.last, next); err != nil {
			return nil, fmt.Errorf("item %d: %w", r.count+1, err)
		}
	}
	r.count++
	r.last = next
	return item, nil
}

func sorted(before, next key) error {
	if before.compare(next) >= 0 {
		return fmt.Errorf("%s comes after %s: want items sorted, and each once", next, before)
	}
	return nil
}

// end reads what comes after the items.
func (r *Reader) end() error {
	r.total = -1
	indexed := int64(-1)
	for {
		field, more, err := r.field()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch field {
		case "count":
			err = r.value(field, &r.total)
		case "index":
			indexed, err = r.index()
		default:
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
	if r.total < 0 {
		return errors.New("it does not say how many items it has")
	}
	if indexed >= 0 && indexed != r.total {
		return fmt.Errorf("the index has %d items, and the manifest says that it has %d", indexed, r.total)
	}
	return r.nothing()
}

// index reads the index, and returns how many items its entries have.
func (r *Reader) index() (items int64, err error) {
	if err := r.delim('['); err != nil {
		return 0, err
	}
	var before block
	for {
		r.input.allow(MaxLine)
		if !r.json.More() {
			return items, r.delim(']')
		}
		var b block
		if err := r.value("index", &b); err != nil {
			return 0, err
		}
		err := b.check()
		if err == nil && items > 0 {
			err = b.follows(before)
		}
		if err != nil {
			return 0, fmt.Errorf("index: %w", err)
		}
		items += b.Items
		before = b
	}
}

// nothing returns an error unless there is nothing more, which also has the checksum compared.
func (r *Reader) nothing() error {
	r.input.allow(MaxLine)
	token, err := r.json.Token()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return fmt.Errorf("after its end: %w", err)
	}
	return fmt.Errorf("%v comes after its end", token)
}

// field returns the name of the next field; more is false at the end of the object.
func (r *Reader) field() (name string, more bool, err error) {
	token, err := r.token()
	name, more = token.(string)
	return name, more, err
}

func (r *Reader) delim(want json.Delim) error {
	token, err := r.token()
	if err == nil && token != want {
		return fmt.Errorf("at byte %d: want %s, got %v", r.json.InputOffset(), want, token)
	}
	return err
}

func (r *Reader) token() (json.Token, error) {
	r.input.allow(MaxLine)
	token, err := r.json.Token()
	return token, r.at(err)
}

func (r *Reader) value(what string, into any) error {
	r.input.allow(MaxLine)
	if err := r.json.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", what, r.at(err))
	}
	return nil
}

// skip passes over the value, of any size, of an unknown field.
func (r *Reader) skip() error {
	for depth := 0; ; {
		token, err := r.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// at adds where an error was found.
func (r *Reader) at(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("at byte %d: %w", r.json.InputOffset(), noEOF(err))
}

// limited fails if more is read than was allowed, so that a value without end is not kept in memory. What was read
// ahead does not count.
type limited struct {
	in   io.Reader
	left int
}

func (l *limited) allow(bytes int) { l.left = bytes }

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("a value is longer than %d bytes", MaxLine)
	}
	n, err := l.in.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
