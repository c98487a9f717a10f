package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
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

const mode = 0o755

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
func (h *header) bytes(path string, size int64) ([]byte, error) {
	prefix, name, ok := split(path)
	if !ok || size >= 1<<33 || h.modTime.Unix() < 0 || h.modTime.Unix() >= 1<<33 {
		return h.slow(path, size)
	}
	h.block = h.template
	b, sum := &h.block, h.sum
	copy(b[nameAt:nameAt+nameLen], name)
	copy(b[prefixAt:prefixAt+prefixLen], prefix)
	octal(b[sizeAt:sizeAt+sizeLen], size)
	for _, c := range []byte(name) {
		sum += int(c)
	}
	for _, c := range []byte(prefix) {
		sum += int(c)
	}
	for _, c := range b[sizeAt : sizeAt+sizeLen] {
		sum += int(c)
	}
	octal(b[sumAt:sumAt+sumLen-1], int64(sum))
	b[sumAt+sumLen-1] = ' '
	return b[:], nil
}

func (h *header) slow(path string, size int64) ([]byte, error) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path, Size: size, Mode: mode, ModTime: h.modTime,
	}); err != nil {
		return nil, fmt.Errorf("header of %s: %w", quotedPath(path), err)
	}
	return b.Bytes(), nil
}

// split cuts a path into the two fields that USTAR has for it, at a slash.
func split(path string) (prefix, name string, ok bool) {
	for i := range len(path) {
		if path[i] == 0 || path[i] >= 0x80 {
			return "", "", false
		}
	}
	if len(path) <= nameLen {
		return "", path, true
	}
	if len(path) > prefixLen+1+nameLen {
		return "", "", false
	}
	// The longest name that fits leaves the shortest prefix.
	from := len(path) - nameLen - 1
	cut := strings.IndexByte(path[from:], '/') + from
	if cut < from || cut == 0 || cut > prefixLen || cut == len(path)-1 {
		return "", "", false
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
