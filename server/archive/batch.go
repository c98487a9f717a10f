package archive

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/flate"
)

// window is how far back a deflate stream can refer.
const window = 32 << 10

// batch is a run of tar entries that is compressed at once, without reference to what came before.
// Each object is stored under two paths; the entries under the second path follow those under the first
// within the window, so that their bodies need not be compressed: see echo.go.
type batch struct {
	plain []byte // the entries to be compressed, headers and padding included
	again []copied
	heads []byte // of again
	big   bool   // plain is one entry too long for the window; again, if any, is its second header

	out  bytes.Buffer
	done chan struct{}
}

// copied is an entry of plain that is to be written again, under another header of the same length.
type copied struct {
	header     []byte
	start, end int // of the entry in plain, first header included
}

// put adds an entry: header, body and padding. second, unless nil, is the header of its second entry.
func (b *batch) put(header, second, body []byte) {
	start := len(b.plain)
	b.plain = append(append(b.plain, header...), body...)
	b.plain = append(b.plain, zeros[:padding(len(body))]...)
	if second != nil {
		b.heads = append(b.heads, second...)
		head := b.heads[len(b.heads)-len(second):]
		b.again = append(b.again, copied{header: head, start: start, end: len(b.plain)})
	}
}

// each calls use with the pieces of the uncompressed stream, in order.
func (b *batch) each(use func(piece []byte)) {
	use(b.plain)
	for _, c := range b.again {
		use(c.header)
		use(b.plain[c.start+len(c.header) : c.end])
	}
}

// compress fills out with a whole number of bytes of a deflate stream.
func (b *batch) compress(z *flate.Writer) error {
	deflate := func(p []byte) error {
		z.Reset(&b.out)
		if _, err := z.Write(p); err != nil {
			return fmt.Errorf("compress: %w", err)
		}
		if err := z.Flush(); err != nil {
			return fmt.Errorf("compress: %w", err)
		}
		return nil
	}
	if !b.big {
		if err := deflate(b.plain); err != nil {
			return err
		}
		echo(&b.out, b.plain, b.again)
		return nil
	}
	if len(b.again) == 0 {
		return deflate(b.plain)
	}
	// The body is compressed once, alone, and its compressed form is used twice.
	second := b.again[0].header
	if err := deflate(b.plain[:len(second)]); err != nil {
		return err
	}
	from := b.out.Len()
	if err := deflate(b.plain[len(second):]); err != nil {
		return err
	}
	body := bytes.Clone(b.out.Bytes()[from:])
	if err := deflate(second); err != nil {
		return err
	}
	b.out.Write(body)
	return nil
}

// reset makes the batch ready for reuse.
func (b *batch) reset() {
	b.plain, b.again, b.heads, b.big = b.plain[:0], b.again[:0], b.heads[:0], false
	b.out.Reset()
}

// padding is what a body lacks to whole blocks.
func padding(body int) int { return -body & (blockSize - 1) }
