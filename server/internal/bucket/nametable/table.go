// Package nametable holds the names of millions of objects in little memory: in a few large pieces instead of a string for
// each.
package nametable

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// ErrLimit is the error for a name that is too long, or one too many.
var ErrLimit = errors.New("the names are over a limit")

// Name stands for a name of a Table.
type Name uint32

const (
	// pieceBits are the bits of a Name for the place in a piece; the others are for the number of the piece.
	pieceBits = 16
	pieceSize = 1 << pieceBits
	// lengthSize is how many bytes have the length of a name, before it.
	lengthSize = 2
)

// Table holds names. The zero value is empty and ready for use. Names are added first, and read afterwards.
type Table struct {
	pieces []string
	last   strings.Builder // the last piece, until Seal
}

// Of returns a name. Seal must have been called.
func (t *Table) Of(n Name) string {
	rest := t.pieces[n>>pieceBits][n&(pieceSize-1):]
	length := int(rest[0]) | int(rest[1])<<8
	return rest[lengthSize:][:length]
}

// Add adds a copy of a name, which does not hold what the name is a part of.
func (t *Table) Add(name string) (Name, error) {
	if len(name) > pieceSize-lengthSize {
		return 0, fmt.Errorf("%w: one has %d bytes, want at most %d", ErrLimit, len(name), pieceSize-lengthSize)
	}
	if t.last.Cap() == 0 || t.last.Len()+lengthSize+len(name) > pieceSize {
		t.Seal()
		if len(t.pieces) > math.MaxUint32>>pieceBits {
			return 0, fmt.Errorf("%w: they have %d GiB", ErrLimit, len(t.pieces)*pieceSize>>30)
		}
		t.last.Grow(pieceSize)
	}
	at := Name(len(t.pieces)<<pieceBits | t.last.Len()) //nolint:gosec // checked above
	t.last.WriteByte(byte(len(name)))
	t.last.WriteByte(byte(len(name) >> 8))
	t.last.WriteString(name)
	return at, nil
}

// Seal ends the last piece, and has to be called after the last name.
func (t *Table) Seal() {
	if t.last.Len() > 0 {
		t.pieces = append(t.pieces, t.last.String())
	}
	t.last = strings.Builder{}
}
