package wire

import (
	"io"
	"iter"
)

// pieceSize is the size, in bytes, of an object's pieces, one per message (Velero's wire).
const pieceSize = 16384

// smallSize is the size of the buffer with which an object begins. Most objects of a bucket are smaller.
const smallSize = 2048

// Pieces returns the pieces in which an object is sent, in either direction. All but the last have the full size; an
// empty object has none. An error of the reader ends the sequence, after the bytes read before it. Each piece has a
// buffer of its own, because a transport may keep it.
func Pieces(object io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for size := smallSize; ; size = pieceSize {
			piece, err := readPiece(object, size)
			if len(piece) > 0 && !yield(piece, nil) {
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

// readPiece reads until a piece is full or there is an error, and returns that error unchanged. (io.ReadFull returns
// io.ErrUnexpectedEOF for a short last piece, which could not be distinguished from a truncated source.) The buffer of
// the piece has size bytes, and grows if more follow.
func readPiece(object io.Reader, size int) (piece []byte, err error) {
	piece = make([]byte, 0, size)
	for len(piece) < pieceSize && err == nil {
		if len(piece) == cap(piece) {
			piece = append(make([]byte, 0, pieceSize), piece...)
		}
		var n int
		n, err = object.Read(piece[len(piece):cap(piece)])
		piece = piece[:len(piece)+n]
	}
	return piece, err
}
