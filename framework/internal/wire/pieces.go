package wire

import (
	"io"
	"iter"
)

// pieceSize is how many bytes of an object go into one message (Velero's wire).
const pieceSize = 16384

// Pieces returns the pieces in which an object is sent, in either direction: all but the last are full. An empty object
// has none. The reader's error ends the sequence, after the bytes that came before it. Each piece is a buffer of its own,
// because a transport may keep it.
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

// fill reads until piece is full or there is an error, and passes that on as it is. (io.ReadFull makes
// io.ErrUnexpectedEOF of a short last piece, which then looks like a reader that was cut short.)
func fill(object io.Reader, piece []byte) (filled int, err error) {
	for filled < len(piece) && err == nil {
		var n int
		n, err = object.Read(piece[filled:])
		filled += n
	}
	return filled, err
}
