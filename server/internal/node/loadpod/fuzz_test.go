package loadpod

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzResult shows that a termination message is a result that can be written again, or an error.
func FuzzResult(f *testing.F) {
	f.Add(`{"id":"u-2","snapshotID":"s","bytes":1}`)
	f.Add(`{"id":"u-2","error":"e","lost":true,"memory":true,"warnings":["w"]}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, message string) {
		if len(message) > mostMessage {
			return
		}
		r, err := parse(message, "u-2")
		if err != nil {
			require.Nil(t, r)
			return
		}
		require.Equal(t, "u-2", r.ID)
		require.LessOrEqual(t, len(r.SnapshotID), mostID)
		require.GreaterOrEqual(t, min(r.Bytes, r.NewBytes), int64(0))
	})
}

// FuzzProgress shows that any file is a progress or an error.
func FuzzProgress(f *testing.F) {
	f.Add(`{"done":1,"total":2}`)
	f.Add(`{"done":1e400}`)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = decodeProgress(strings.NewReader(text)) })
}
