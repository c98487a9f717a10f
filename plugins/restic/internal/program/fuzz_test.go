package program

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse reads any line of restic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"message_type":"error","error":{"message":"a"},"item":"b"}`))
	f.Add([]byte(`{"message_type":"error","error":{"Op":"open","Path":"/a","Err":2}}`))
	f.Add([]byte(`{"message_type":"error","error":null}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if m, ok := parse(line); ok {
			require.Error(t, m.Err())
		}
	})
}
