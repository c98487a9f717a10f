package v1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

func TestPiecesAreFullButForTheLast(t *testing.T) {
	t.Parallel()
	for size, want := range map[int][]int{
		0: nil, 1: {1}, 16383: {16383}, 16384: {16384}, 16385: {16384, 1}, 40000: {16384, 16384, 7232},
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

func TestPiecesPassOnAReadersErrorAndWhatCameBeforeIt(t *testing.T) {
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
	for piece, err := range Pieces(io.MultiReader(bytes.NewReader(make([]byte, pieceSize)), bytes.NewReader(bytes.Repeat([]byte("x"), pieceSize)))) {
		require.NoError(t, err)
		pieces = append(pieces, piece)
	}
	require.Len(t, pieces, 2)
	require.Equal(t, make([]byte, pieceSize), pieces[0])
}

// messages answers each body and then end, as a stream does.
func messages(end error, bodies ...string) func() (*objectstorev1.PutObjectRequest, error) {
	return func() (*objectstorev1.PutObjectRequest, error) {
		if len(bodies) == 0 {
			return nil, end
		}
		body := bodies[0]
		bodies = bodies[1:]
		return &objectstorev1.PutObjectRequest{Body: []byte(body)}, nil
	}
}

func TestAnUploadReaderIsAReader(t *testing.T) {
	t.Parallel()
	for _, bodies := range [][]string{{}, {""}, {"", "one", "", "two"}} {
		want := []byte("first")
		for _, body := range bodies {
			want = append(want, body...)
		}
		require.NoError(t, iotest.TestReader(&uploadReader{rest: []byte("first"), receive: messages(io.EOF, bodies...)}, want))
	}
}

func TestAnUploadMustBeReadToItsGoodEnd(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for name, test := range map[string]struct {
		read int64
		end  error
		want error
	}{
		"to the end":             {11, io.EOF, nil},
		"to the last byte":       {10, io.EOF, nil},
		"not the last byte":      {9, io.EOF, errStoppedEarly},
		"nothing":                {0, io.EOF, errStoppedEarly},
		"the end never came":     {10, lost, lost},
		"the caller gave it up":  {11, lost, lost},
		"stopped and given up":   {5, lost, errStoppedEarly},
		"an end that is wrapped": {11, fmt.Errorf("lost: %w", io.EOF), fmt.Errorf("lost: %w", io.EOF)},
	} {
		reader := &uploadReader{rest: []byte("first"), receive: messages(test.end, "", "after")}
		_, _ = io.CopyN(io.Discard, reader, test.read)
		require.Equal(t, test.want, reader.atEnd(), name)
	}
}
