package backupsync

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	kubejson "sigs.k8s.io/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// TestOnlyLoadsThatHaveEndedAreBrought decodes PodVolumeBackups of a bucket.
func TestOnlyLoadsThatHaveEndedAreBrought(t *testing.T) {
	t.Parallel()
	p := &pass{
		Controller: &Controller{Cluster: &run.Cluster{Namespace: "velero"}},
		location:   &velerov1.BackupStorageLocation{},
	}
	p.location.Name = "default"
	for name, test := range map[string]struct{ stored, err string }{
		"completed": {`{"metadata":{"name":"v","annotations":{"example.io/a":"b","cleat.dev/x":"y"},"labels":{"velero.io/backup-name":"other","velero.io/backup-uid":"other","velero.io/async-operation-id":"other"}},"spec":{"cancel":true},"status":{"phase":"Completed"}}`, ""},
		"failed":    {`{"apiVersion":"velero.io/v1","kind":"PodVolumeBackup","metadata":{"name":"v","annotations":{"example.io/a":"b","cleat.dev/x":"y"},"labels":{"velero.io/backup-name":"other","velero.io/backup-uid":"other","velero.io/async-operation-id":"other"}},"spec":{},"status":{"phase":"Failed"}}`, ""},
		"canceled":  {`{"metadata":{"name":"v","annotations":{"example.io/a":"b","cleat.dev/x":"y"},"labels":{"velero.io/backup-name":"other","velero.io/backup-uid":"other","velero.io/async-operation-id":"other"}},"spec":{},"status":{"phase":"Canceled"}}`, ""},
		"no status": {`{"metadata":{"name":"v"},"spec":{}}`, `its phase is ""`},
		"new":       {`{"metadata":{"name":"v"},"spec":{},"status":{"phase":"New"}}`, `its phase is "New"`},
		"in progress": {`{"metadata":{"name":"v"},"spec":{},"status":{"phase":"InProgress"}}`,
			`its phase is "InProgress"`},
		"a phase of nobody": {`{"metadata":{"name":"v"},"spec":{},"status":{"phase":"completed"}}`,
			`its phase is "completed"`},
		"a phase that is no string": {`{"metadata":{"name":"v"},"status":{"phase":1}}`, "status.phase"},
		"a status that is a list":   {`{"metadata":{"name":"v"},"status":[]}`, "status"},
		"a spec that is a string":   {`{"metadata":{"name":"v"},"spec":"x","status":{"phase":"Completed"}}`, "spec"},
		"another kind":              {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"v"},"spec":{},"status":{"phase":"Completed"}}`, "it is a Secret of v1, want a PodVolumeBackup of velero.io/v1"},
		"no spec":                   {`{"metadata":{"name":"v"},"status":{"phase":"Completed"}}`, "it has no spec"},
		"no name":                   {`{"spec":{},"status":{"phase":"Completed"}}`, "its name is not one of an object"},
		"a path": {`{"metadata":{"name":"../v"},"spec":{},"status":{"phase":"Completed"}}`,
			"its name is not one of an object"},
		"nothing": {`null`, "it has no spec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stored storedVolume
			require.NoError(t, json.Unmarshal([]byte(test.stored), &stored))
			made, err := p.volume(stored, "b", "uid")
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "velero", made.GetNamespace())
			require.Equal(t, map[string]string{"example.io/a": "b"}, made.GetAnnotations())
			require.Equal(t, map[string]string{velerov1.BackupNameLabel: "b", velerov1.BackupUIDLabel: "uid"}, made.GetLabels())
			require.NotContains(t, made.Object["spec"], "cancel")
		})
	}
}

// FuzzVolumesOfBuckets reads any PodVolumeBackup of a bucket: it is refused, or has ended.
func FuzzVolumesOfBuckets(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"v","labels":{"a":"b"}},"spec":{"cancel":true},"status":{"phase":"Completed"}}`))
	f.Add([]byte(`{"metadata":[],"spec":null,"status":{"phase":"Failed"}}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"metadata":{"name":"v"},"spec":{"CAnCel":true},"status":{"phase":"Completed"}}`)) // another field
	p := &pass{Controller: &Controller{Cluster: &run.Cluster{Namespace: "velero"}},
		location: &velerov1.BackupStorageLocation{}}
	f.Fuzz(func(t *testing.T, content []byte) {
		var stored storedVolume
		if json.Unmarshal(content, &stored) != nil {
			return
		}
		made, err := p.volume(stored, "b", "uid")
		if err != nil {
			_ = made.GetName() // which the log has
			return
		}
		encoded, err := made.MarshalJSON()
		require.NoError(t, err)
		var load velerov1.PodVolumeBackup
		if kubejson.UnmarshalCaseSensitivePreserveInts(encoded, &load) != nil {
			return // the API server refuses it
		}
		require.True(t, load.Status.Phase.Terminal())
		require.False(t, load.Spec.Cancel)
		require.Equal(t, "velero", load.Namespace)
		require.Empty(t, load.Finalizers)
		require.Len(t, load.OwnerReferences, 1)
	})
}
