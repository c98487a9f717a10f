package archive

import (
	"archive/tar"
	"bytes"
	"slices"
	"time"
)

// blockSize is the unit of a tar file: headers take one block, bodies are padded to whole ones.
const blockSize = 512

// header writes the headers of regular files, which is most of what an archive of small objects
// costs. What can be written as plain USTAR, which is all but very long paths, is filled into a
// template; the rest is left to archive/tar.
type header struct {
	template [blockSize]byte
	sum      int // checksum of the template
	modTime  time.Time
	block    [blockSize]byte
}

// Fields of a USTAR header: their offset and length.
const (
	nameAt, nameLen       = 0, 100
	modeAt, modeLen       = 100, 8
	ownerAt, ownerLen     = 108, 8 // and the group behind it
	sizeAt, sizeLen       = 124, 12
	modTimeAt, modTimeLen = 136, 12
	sumAt, sumLen         = 148, 8
	typeAt                = 156
	magicAt               = 257
	prefixAt, prefixLen   = 345, 155
)

const (
	mode     = 0o755
	maxOctal = 1<<33 - 1 // what eleven octal digits can hold
)

func newHeader(modTime time.Time) *header {
	h := &header{modTime: modTime.Truncate(time.Second)}
	t := &h.template
	octal(t[modeAt:modeAt+modeLen], mode)
	octal(t[ownerAt:ownerAt+ownerLen], 0)
	octal(t[ownerAt+ownerLen:ownerAt+2*ownerLen], 0)
	octal(t[modTimeAt:modTimeAt+modTimeLen], h.modTime.Unix())
	t[typeAt] = tar.TypeReg
	copy(t[magicAt:], "ustar\x0000")
	h.sum = sumLen * ' ' // the checksum counts itself as blanks
	for _, b := range t {
		h.sum += int(b)
	}
	return h
}

// bytes is the header of a file, valid until the next call.
func (h *header) bytes(path []byte, size int) []byte {
	prefix, name, ok := split(path)
	if !ok || uint64(size) > maxOctal || uint64(h.modTime.Unix()) > maxOctal {
		return h.slow(string(path), size)
	}
	h.block = h.template
	b, sum := &h.block, h.sum
	copy(b[nameAt:nameAt+nameLen], name)
	copy(b[prefixAt:prefixAt+prefixLen], prefix)
	octal(b[sizeAt:sizeAt+sizeLen], int64(size))
	for _, filled := range [][]byte{name, prefix, b[sizeAt : sizeAt+sizeLen]} {
		for _, c := range filled {
			sum += int(c)
		}
	}
	octal(b[sumAt:sumAt+sumLen-1], int64(sum))
	b[sumAt+sumLen-1] = ' '
	return b[:]
}

func (h *header) slow(path string, size int) []byte {
	var b bytes.Buffer
	// It fails for no path without NUL, which checkPart refuses, and a buffer takes everything.
	_ = tar.NewWriter(&b).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path, Size: int64(size), Mode: mode, ModTime: h.modTime,
	})
	return b.Bytes()
}

// split cuts a path into the two fields that USTAR has for it, at a slash.
func split(path []byte) (prefix, name []byte, ok bool) {
	if slices.ContainsFunc(path, func(c byte) bool { return c >= 0x80 }) {
		return nil, nil, false
	}
	if len(path) <= nameLen {
		return nil, path, true
	}
	// The longest name that fits leaves the shortest prefix.
	from := len(path) - nameLen - 1
	cut := bytes.IndexByte(path[from:], '/') + from
	if cut < from || cut == 0 || cut > prefixLen {
		return nil, nil, false
	}
	return path[:cut], path[cut+1:], true
}

// octal fills a field with a number and a NUL behind it.
func octal(field []byte, n int64) {
	field[len(field)-1] = 0
	for i := len(field) - 2; i >= 0; i-- {
		field[i] = '0' + byte(n&7)
		n >>= 3
	}
}
