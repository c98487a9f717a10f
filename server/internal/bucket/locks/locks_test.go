package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/locks"
)

func TestLocksOfALocation(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		found *objectstorev1.Locks
		keeps bool
		text  string
	}{
		"does not tell": {nil, false, "unknown, the object store does not tell"},
		"nothing":       {&objectstorev1.Locks{Lock: objectstorev1.No}, false, "nothing"},
		"holds only": {&objectstorev1.Locks{Lock: objectstorev1.Yes}, false,
			"nothing but what is held; config.objectLockMode locks files until backups expire"},
		"by ttl": {&objectstorev1.Locks{Mode: objectstorev1.ModeCompliance}, true, "COMPLIANCE, until a backup expires"},
		"fixed": {&objectstorev1.Locks{Mode: objectstorev1.ModeGovernance, KeepFor: day}, true,
			"GOVERNANCE, for 24h0m0s from the end of a backup: a shorter ttl keeps files longer than that"},
		"by the bucket": {&objectstorev1.Locks{DefaultMode: objectstorev1.ModeGovernance, DefaultFor: day}, true,
			"GOVERNANCE, for 24h0m0s from each write, by the bucket: a shorter ttl keeps files longer than that"},
		"both": {&objectstorev1.Locks{Mode: objectstorev1.ModeCompliance, DefaultMode: objectstorev1.ModeGovernance,
			DefaultFor: day}, true,
			"COMPLIANCE, until a backup expires; all other files, by the bucket: GOVERNANCE, for 24h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location := &velerov1.BackupStorageLocation{}
			locks.Note(location, &objectstorev1.Locks{Mode: "other"})
			locks.Note(location, test.found)
			require.Equal(t, test.found, locks.Of(location))
			require.Equal(t, test.keeps, locks.Keeps(location))
			require.Equal(t, test.text, locks.Describe(locks.Of(location)))
		})
	}
	location := &velerov1.BackupStorageLocation{}
	location.Annotations = map[string]string{velerov1.LocksAnnotation: "no JSON"}
	require.Nil(t, locks.Of(location))
	require.False(t, locks.Keeps(location))
}
