package wire

import (
	"io"
	"iter"
)

// pieceSize is the size, in bytes, of an object's pieces, one per message (Velero's wire).
const pieceSize = 16384

// Pieces returns the pieces in which an object is sent, in either direction. All but the last have the full size; an
// empty object has none. An error of the reader ends the sequence, after the bytes read before it. Each piece has a
// buffer of its own, because a transport may keep it.
func Pieces(object io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			piece := make([]byte, pieceSize)
			filled, err := fill(object, piece)
			if filled > 0 && !yield(piece[:filled], nil) {
				return
			}
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// fill reads until piece is full or there is an error, and returns that error unchanged. (io.ReadFull returns
// io.ErrUnexpectedEOF for a short last piece, which could not be distinguished from a truncated source.)
func fill(object io.Reader, piece []byte) (filled int, err error) {
	for filled < len(piece) && err == nil {
		var n int
		n, err = object.Read(piece[filled:])
		filled += n
	}
	return filled, err
}
