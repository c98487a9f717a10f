package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/locks"
)

// FuzzOf reads any annotation. What it accepts comes back as it was.
func FuzzOf(f *testing.F) {
	f.Add(`{"mode":"COMPLIANCE","keepFor":3600000000000,"versions":"yes","lock":"yes"}`)
	f.Add(`{"defaultMode":"GOVERNANCE","defaultFor":-1}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, text string) {
		location := &velerov1.BackupStorageLocation{}
		location.Annotations = map[string]string{velerov1.LocksAnnotation: text}
		found := locks.Of(location)
		require.NotEmpty(t, locks.Describe(found))
		if found == nil {
			require.False(t, locks.Keeps(location))
			return
		}
		locks.Note(location, found)
		require.Equal(t, found, locks.Of(location))
	})
}
