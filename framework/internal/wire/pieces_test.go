package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestPiecesAreFullExceptTheLast(t *testing.T) {
	t.Parallel()
	for size, want := range map[int][]int{
		0: nil, 1: {1}, 2047: {2047}, 2048: {2048}, 2049: {2049}, 16383: {16383}, 16384: {16384}, 16385: {16384, 1},
		40000: {16384, 16384, 7232},
	} {
		content := bytes.Repeat([]byte("x"), size)
		for name, reader := range map[string]io.Reader{
			"at once":             bytes.NewReader(content),
			"byte by byte":        iotest.OneByteReader(bytes.NewReader(content)),
			"the end with a byte": iotest.DataErrReader(bytes.NewReader(content)),
		} {
			var sizes []int
			var joined []byte
			for piece, err := range Pieces(reader) {
				require.NoError(t, err)
				sizes = append(sizes, len(piece))
				joined = append(joined, piece...)
			}
			require.Equal(t, want, sizes, "%d bytes, %s", size, name)
			require.True(t, bytes.Equal(content, joined))
		}
	}
}

func TestPiecesEndWithTheReadersError(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{errors.New("disk gone"), io.ErrUnexpectedEOF, fmt.Errorf("wrapped: %w", io.EOF)} {
		var joined []byte
		var got error
		for piece, err := range Pieces(io.MultiReader(bytes.NewReader(make([]byte, 16390)), iotest.ErrReader(broken))) {
			joined, got = append(joined, piece...), err
		}
		require.Equal(t, broken, got, "only io.EOF itself is the end")
		require.Len(t, joined, 16390)
	}
}

func TestPiecesDoNotShareTheirBuffer(t *testing.T) {
	t.Parallel()
	var pieces [][]byte
	for piece, err := range Pieces(io.MultiReader(bytes.NewReader(make([]byte, pieceSize)),
		bytes.NewReader(bytes.Repeat([]byte("x"), pieceSize)))) {
		require.NoError(t, err)
		pieces = append(pieces, piece)
	}
	require.Len(t, pieces, 2)
	require.Equal(t, make([]byte, pieceSize), pieces[0])
}
