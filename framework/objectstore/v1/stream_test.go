package v1

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// messages returns a function that returns each body and then end, as a stream does.
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

func TestUploadReaderIsReader(t *testing.T) {
	t.Parallel()
	for _, bodies := range [][]string{{}, {""}, {"", "one", "", "two"}} {
		want := []byte("first")
		for _, body := range bodies {
			want = append(want, body...)
		}
		require.NoError(t, iotest.TestReader(&uploadReader{rest: []byte("first"), receive: messages(io.EOF, bodies...)},
			want))
	}
}

func TestUploadMustBeReadToTheEnd(t *testing.T) {
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
