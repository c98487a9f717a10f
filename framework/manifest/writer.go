package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// Options bound the resources of a Writer.
type Options struct {
	// Dir is the directory for what does not fit into memory, the system's one for temporary files if it is empty. A file
	// there has no name, so that it disappears with the process.
	Dir string
	// Memory is how many bytes of items are kept in memory, 4 MiB if it is 0.
	Memory int
}

// Writer writes a manifest. The bytes that it writes depend on the header and the items alone, not on the order in
// which they come. It is not safe for concurrent use.
type Writer struct {
	out    io.Writer
	header Header
	items  *sorter
	line   []byte // of the item that is added
	err    error  // of the first failure, or errClosed
}

var errClosed = errors.New("the manifest is closed")

// NewWriter returns a writer to out. Nothing is written before Close.
func NewWriter(out io.Writer, header Header, options Options) (*Writer, error) {
	if header.FormatVersion == "" {
		header.FormatVersion = FormatVersion
	}
	if header.Backup.Name == "" {
		return nil, errors.New("a manifest needs the name of its backup")
	}
	return &Writer{out: out, header: header, items: newSorter(options)}, nil
}

func encoder(w io.Writer) *json.Encoder {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return lines
}

// Add adds an item; it may be changed after the call. An item of the same resource, version, namespace and name
// replaces the earlier one. An item that cannot be in a manifest is an error, after which others can still be added.
func (w *Writer) Add(item *Item) error {
	if w.err != nil {
		return w.err
	}
	if err := item.check(); err != nil {
		return err
	}
	w.line = appendItem(w.line[:0], item)
	if len(w.line) > MaxLine {
		return fmt.Errorf("item %s has %d bytes in the manifest, want at most %d", item, len(w.line), MaxLine)
	}
	w.err = w.items.add(keyOf(item).sortable(), w.line)
	return w.err
}

// Abort releases the resources of the writer, and writes nothing. It does nothing after Close.
func (w *Writer) Abort() {
	if w.err != errClosed {
		w.items.close()
		w.err = errClosed
	}
}

// Close writes the manifest and releases the resources of the writer. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.err != nil {
		err := w.err
		w.Abort()
		return err
	}
	defer w.Abort()
	return w.write()
}

func (w *Writer) write() error {
	// A better level takes twice the time for 3 % of the bytes.
	compressor, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		return err
	}
	file := &blocks{out: &counter{out: w.out}, gzip: compressor}
	if err := file.begin(w.header); err != nil {
		return err
	}
	for line, err := range w.items.sorted() {
		if err != nil {
			return err
		}
		if err := file.add(line); err != nil {
			return err
		}
	}
	return file.end()
}

// blocks writes the file from sorted lines.
type blocks struct {
	out   *counter
	gzip  *gzip.Writer
	index []block
	count int64
	block bytes.Buffer // lines of the block that is not written yet
	items int64        // in it
	first key
}

// begin writes the first member, which has the header.
func (b *blocks) begin(header Header) error {
	var start bytes.Buffer
	encoded := encoder(&start)
	if err := encoded.Encode(struct {
		Manifest int `json:"manifest"`
		Header
	}{Version, header}); err != nil {
		return err
	}
	open := bytes.TrimSuffix(start.Bytes(), []byte("}\n"))
	return b.member(append(open, `,"items":[`+"\n"...))
}

// add adds a line to the current block, and writes it when it is full.
func (b *blocks) add(line []byte) error {
	if b.items == 0 {
		b.first = key{} // a field that the line lacks would keep the value of the block before
		if err := json.Unmarshal(line, &b.first); err != nil {
			return err
		}
	}
	if b.count > 0 {
		b.block.WriteString(",\n")
	}
	b.block.Write(line)
	b.items++
	b.count++
	if b.items == blockItems || b.block.Len() >= blockBytes {
		return b.flush()
	}
	return nil
}

func (b *blocks) flush() error {
	at := b.out.written
	if err := b.member(b.block.Bytes()); err != nil {
		return err
	}
	b.index = append(b.index, block{At: at, Size: b.out.written - at, First: b.first, Items: b.items})
	b.block.Reset()
	b.items = 0
	return nil
}

// end writes the remaining lines, the index and the footer.
func (b *blocks) end() error {
	if b.items > 0 {
		if err := b.flush(); err != nil {
			return err
		}
	}
	if err := b.member([]byte(indexStart)); err != nil {
		return err
	}
	var roots []block
	for part := range slices.Chunk(b.index, indexLines) {
		at := b.out.written
		if err := b.member(encodeBlocks(part, len(roots) > 0)); err != nil {
			return err
		}
		roots = append(roots, block{At: at, Size: b.out.written - at, First: part[0].First, Items: int64(len(part))})
	}
	at := b.out.written
	if err := b.member(fmt.Appendf(nil, "%s%s],\"count\":%d}\n", rootsStart, encodeBlocks(roots, false),
		b.count)); err != nil {
		return err
	}
	_, err := b.out.Write(encodeFooter(at, b.out.written-at))
	return err
}

// encodeBlocks returns a line for each block. The first has a comma before it if it continues an array.
func encodeBlocks(all []block, continues bool) []byte {
	var lines bytes.Buffer
	encoded := encoder(&lines)
	for i, b := range all {
		if i > 0 || continues {
			lines.WriteByte(',')
		}
		_ = encoded.Encode(b) // numbers and strings can be encoded
	}
	return lines.Bytes()
}

// member writes a member of gzip.
func (b *blocks) member(content []byte) error {
	b.gzip.Reset(b.out)
	if _, err := b.gzip.Write(content); err != nil {
		return err
	}
	return b.gzip.Close()
}

// counter counts the written bytes.
type counter struct {
	out     io.Writer
	written int64
}

func (c *counter) Write(content []byte) (int, error) {
	n, err := c.out.Write(content)
	c.written += int64(n)
	return n, err
}
