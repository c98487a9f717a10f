package status_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/locks"
)

func TestLocationSaysWhatItsBucketLocks(t *testing.T) {
	t.Parallel()
	const unknown = "Bucket:\n  Locks:                 unknown, the object store does not tell\n"
	for want, test := range map[string]struct {
		found *objectstorev1.Locks
		once  bool
	}{
		unknown + "  Writes each key once:  no\n":  {nil, false},
		unknown + "  Writes each key once:  yes\n": {nil, true},
		"Bucket:\n  Locks:                 COMPLIANCE, for 24h0m0s from the end of a backup: a shorter ttl keeps files " +
			"longer than that\n  Object Lock:           yes\n  Versions:              yes\n  Conditional writes:    " +
			"unknown\n  Writes each key once:  yes, because the bucket locks files\n": {&objectstorev1.Locks{
			Versions: objectstorev1.Yes, Lock: objectstorev1.Yes, Mode: objectstorev1.ModeCompliance,
			KeepFor: 24 * time.Hour}, false},
	} {
		l := &velerov1.BackupStorageLocation{}
		l.Name, l.Spec.Provider = "default", "cleat.dev/s3"
		locks.Note(l, test.found)
		if test.once {
			l.Annotations = map[string]string{velerov1.WriteOnceAnnotation: "true"}
		}
		var out bytes.Buffer
		require.NoError(t, status.PrintLocation(&out, l))
		require.Contains(t, out.String(), want)
		require.Contains(t, out.String(), "Phase:")
	}
}

func TestKeptBackupIsShown(t *testing.T) {
	t.Parallel()
	for want, annotations := range map[string]map[string]string{
		"Completed":        nil,
		"Completed (held)": {velerov1.HoldAnnotation: "true", velerov1.HeldAnnotation: "true"},
		"Completed (kept until 2026-11-27T18:00:00Z)": {velerov1.KeptAnnotation: "2026-11-27T18:00:00Z"},
		"Completed (kept: held)": {velerov1.KeptAnnotation: velerov1.KeptByHold,
			velerov1.HeldAnnotation: "true"},
	} {
		b := velerov1.Backup{}
		b.Name, b.Annotations, b.Status.Phase = "b", annotations, velerov1.BackupPhaseCompleted
		require.Equal(t, want, status.BackupTable([]velerov1.Backup{b}, time.Now()).Rows[0][1])
	}
}
