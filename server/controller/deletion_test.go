package controller

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/run"
)

func TestWhoseDataIsInTheBucket(t *testing.T) {
	t.Parallel()
	at := func(seconds int) *metav1.Time {
		return run.Timestamp(controllertest.Noon().Add(time.Duration(seconds) * time.Second))
	}
	backup := func(uid types.UID, created, started *metav1.Time) *velerov1.Backup {
		b := controllertest.NewBackup("b", func(b *velerov1.Backup) { b.UID, b.Status.StartTimestamp = uid, started })
		if created != nil {
			b.CreationTimestamp = *created
		}
		return b
	}
	stored := backup("one", at(0), at(1))
	for name, tt := range map[string]struct {
		backup *velerov1.Backup
		want   bool
	}{
		"the one that made it":                      {backup("one", at(0), at(1)), true},
		"a copy made in another cluster":            {backup("two", at(60), at(1)), true},
		"another of its name":                       {backup("two", at(30), at(31)), false},
		"another that started in the same second":   {backup("two", at(0), at(1)), false},
		"another that was created and started then": {backup("two", at(1), at(1)), false},
		"another that never started":                {backup("two", at(60), nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metadata, err := json.Marshal(stored)
			require.NoError(t, err)
			own, err := owns(tt.backup, metadata)
			require.NoError(t, err)
			require.Equal(t, tt.want, own)
		})
	}
	_, err := owns(stored, []byte("<html>"))
	require.ErrorContains(t, err, "decode velero-backup.json of backup b, want the JSON of a Backup")
}

func TestABackupThatNeverStartedHasNothingInTheBucket(t *testing.T) {
	t.Parallel()
	for phase, want := range map[velerov1.BackupPhase]bool{
		"": true, "New": true, "Queued": true, "ReadyToStart": true, "FailedValidation": true,
		"Completed": false, "PartiallyFailed": false, "Failed": false, "Deleting": false,
	} {
		require.Equal(t, want, neverStored(controllertest.NewBackup("b", controllertest.InPhase(phase))), phase)
	}
	deleting := controllertest.NewBackup("b", controllertest.InPhase("Deleting"))
	deleting.Annotations = map[string]string{deletedInPhase: "FailedValidation"}
	require.True(t, neverStored(deleting))
}
