package archive

import (
	"fmt"
	"math"
	"strings"
)

// text stands for the name of an object or namespace in the names of an archive.
type text uint32

const (
	// pieceBits are the bits of a text for the place in a piece; the others are for the number of the piece.
	pieceBits = 16
	pieceSize = 1 << pieceBits
	// lengthSize is how many bytes have the length of a name, before it.
	lengthSize = 2
)

// names holds the names of all objects of an archive in a few large pieces of memory.
type names struct {
	pieces []string
	last   strings.Builder // the last piece, until seal
}

// of returns a name. seal must have been called.
func (n *names) of(t text) string {
	rest := n.pieces[t>>pieceBits][t&(pieceSize-1):]
	length := int(rest[0]) | int(rest[1])<<8
	return rest[lengthSize:][:length]
}

// add adds a copy of a name, which does not hold what the name is a part of.
func (n *names) add(name string) (text, error) {
	if len(name) > pieceSize-lengthSize {
		return 0, fmt.Errorf("%w: a name has %d bytes, want at most %d", ErrLimit, len(name), pieceSize-lengthSize)
	}
	if n.last.Cap() == 0 || n.last.Len()+lengthSize+len(name) > pieceSize {
		n.seal()
		if len(n.pieces) > math.MaxUint32>>pieceBits {
			return 0, fmt.Errorf("%w: the names of the objects have %d GiB", ErrLimit, len(n.pieces)*pieceSize>>30)
		}
		n.last.Grow(pieceSize)
	}
	at := text(len(n.pieces)<<pieceBits | n.last.Len()) //nolint:gosec // checked above
	n.last.WriteByte(byte(len(name)))
	n.last.WriteByte(byte(len(name) >> 8))
	n.last.WriteString(name)
	return at, nil
}

// seal ends the last piece, and has to be called after the last name.
func (n *names) seal() {
	if n.last.Len() > 0 {
		n.pieces = append(n.pieces, n.last.String())
	}
	n.last = strings.Builder{}
}
