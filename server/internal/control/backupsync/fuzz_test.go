package backupsync

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// FuzzBackup reads any velero-backup.json. If it is accepted, it is a Backup of that name and of the location.
func FuzzBackup(f *testing.F) {
	const begin = `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"b"},`
	f.Add([]byte(begin + `"spec":{},"status":{"phase":"Completed"}}`))
	f.Add([]byte(begin + `"spec":null,"status":{"phase":"InProgress","expiration":"2020-01-01T00:00:00Z"},"status":null}`))
	f.Add([]byte(begin + `"status":{"phase":"InProgress","expiration":"2020-01-01T00:00:00Z"}}`))
	f.Fuzz(func(t *testing.T, metadata []byte) {
		location := new(velerov1.BackupStorageLocation)
		location.Name = "here"
		p := &pass{Controller: &Controller{Cluster: &run.Cluster{Namespace: "velero"}, Now: time.Now}, location: location}
		var probe velerov1.Backup
		if json.Unmarshal(metadata, &probe) == nil && len(probe.OwnerReferences) > 0 {
			return // they are looked up in the cluster
		}
		b, _, err := p.backup(t.Context(), "b", metadata)
		if err != nil {
			return
		}
		require.Equal(t, "b", b.Name)
		require.JSONEq(t, `"here"`, string(b.Spec["storageLocation"]))
		_, err = json.Marshal(b)
		require.NoError(t, err)
	})
}
