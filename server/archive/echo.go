package archive

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// echo appends a deflate block that writes entries of plain again, under other headers. plain, which is
// not longer than the window, is what the stream before the block ends with. The bodies become
// references to plain, and so do the parts of the headers that are the same: nothing is searched for,
// so that the second copy of an object costs next to nothing. The block ends at a whole byte.
func echo(out *bytes.Buffer, plain []byte, entries []copied) {
	if len(entries) == 0 {
		return
	}
	w := bitWriter{out: out}
	w.bits(0b010, 3) // not the last block, fixed codes
	pos := len(plain)
	var before []byte // the header written last
	var beforeAt int
	for _, e := range entries {
		header := plain[e.start : e.start+len(e.header)]
		w.header(e.header, []like{
			{bytes: header, distance: pos - e.start},
			{bytes: before, distance: pos - beforeAt},
		})
		before, beforeAt = e.header, pos
		w.copy(e.end-e.start-len(e.header), pos-e.start)
		pos += e.end - e.start
	}
	w.symbol(endOfBlock)
	w.bits(0, 3) // an empty stored block, which begins at a whole byte
	w.align()
	out.WriteString("\x00\x00\xff\xff")
}

// like is something in the window that resembles what is to be written, as far back as distance.
type like struct {
	bytes    []byte
	distance int
}

// pathShift is by how much longer the path with version is than the one without, for resources whose
// version is "v1": what follows in a header stands that much further on.
const pathShift = len("v1" + preferredSuffix + "/")

// minMatch is how long a reference must be to be shorter than what it refers to.
const minMatch = 4

// header writes a header with references to those that are like it.
func (w *bitWriter) header(header []byte, sources []like) {
	for i := 0; i < len(header); {
		best, distance := 0, 0
		for _, s := range sources {
			for _, shift := range []int{0, pathShift} {
				if i < shift || s.distance+shift > window {
					continue
				}
				if n := common(header[i:], s.bytes, i-shift); n > best {
					best, distance = n, s.distance+shift
				}
			}
		}
		if best < minMatch {
			w.symbol(int(header[i]))
			i++
			continue
		}
		w.copy(best, distance)
		i += best
	}
}

// common is how many bytes of a are the same as those of b from an index on.
func common(a, b []byte, from int) int {
	if from >= len(b) {
		return 0
	}
	b = b[from:]
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// bitWriter writes the fixed codes of deflate (RFC 1951, section 3.2.6).
type bitWriter struct {
	out   *bytes.Buffer
	value uint64
	count uint
}

const (
	endOfBlock = 256
	minLength  = 3
	maxLength  = 258
)

// copy writes references for n bytes. n must be 0 or at least minLength.
func (w *bitWriter) copy(n, distance int) {
	for n > 0 {
		length := min(n, maxLength)
		if rest := n - length; rest > 0 && rest < minLength {
			length -= minLength
		}
		w.reference(length, distance)
		n -= length
	}
}

func (w *bitWriter) reference(length, distance int) {
	switch l := length - minLength; {
	case length == maxLength:
		w.symbol(285)
	case l < 8:
		w.symbol(257 + l)
	default:
		extra := bits.Len(uint(l)) - 3
		w.symbol(257 + 4*extra + l>>extra)
		w.bits(uint64(l)&(1<<extra-1), uint(extra))
	}
	d := distance - 1
	if d < 4 {
		w.code(uint64(d), 5)
		return
	}
	extra := bits.Len(uint(d)) - 2
	w.code(uint64(2*extra+d>>extra), 5)
	w.bits(uint64(d)&(1<<extra-1), uint(extra))
}

// symbol writes a byte, the length of a reference or the end of the block.
func (w *bitWriter) symbol(s int) {
	switch {
	case s < 144:
		w.code(uint64(0x30+s), 8)
	case s < 256:
		w.code(uint64(0x190+s-144), 9)
	case s < 280:
		w.code(uint64(s-256), 7)
	default:
		w.code(uint64(0xc0+s-280), 8)
	}
}

// code writes a Huffman code, which goes in with its highest bit first.
func (w *bitWriter) code(c uint64, n uint) { w.bits(bits.Reverse64(c)>>(64-n), n) }

func (w *bitWriter) bits(v uint64, n uint) {
	w.value |= v << w.count
	if w.count += n; w.count >= 32 {
		w.out.Write(binary.LittleEndian.AppendUint32(w.out.AvailableBuffer(), uint32(w.value)))
		w.value >>= 32
		w.count -= 32
	}
}

// align fills up the last byte.
func (w *bitWriter) align() {
	for ; w.count > 0; w.count -= min(8, w.count) {
		w.out.WriteByte(byte(w.value))
		w.value >>= 8
	}
}
