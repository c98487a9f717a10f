package wire_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/wire"
)

func TestDecodedReturnsSeparateObjects(t *testing.T) {
	t.Parallel()
	var backups wire.Decoded[velerov1.Backup, *velerov1.Backup]
	raw := []byte(`{"metadata":{"name":"nightly","labels":{"a":"b"}}}`)
	for range 3 {
		backup, err := backups.Get("backup", raw)
		require.NoError(t, err)
		require.Equal(t, "nightly", backup.Name)
		require.Equal(t, map[string]string{"a": "b"}, backup.Labels)
		backup.Name, backup.Labels["a"] = "changed", "changed"
	}
}

func TestDecodedDoesNotConfuseObjects(t *testing.T) {
	t.Parallel()
	var backups wire.Decoded[velerov1.Backup, *velerov1.Backup]
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for round := range 100 {
				name := fmt.Sprintf("backup-%d", (caller+round)%12) // more than are kept
				backup, err := backups.Get("backup", fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name))
				if err != nil || backup.Name != name {
					t.Errorf("got %v, %v, want %s", backup, err, name)
				}
			}
		})
	}
	callers.Wait()
}

func TestDecodedErrorNamesField(t *testing.T) {
	t.Parallel()
	var backups wire.Decoded[velerov1.Backup, *velerov1.Backup]
	for _, raw := range []string{"", "{", "[]", `{"metadata":5}`} {
		_, err := backups.Get("backup", []byte(raw))
		require.ErrorContains(t, err, "decode backup of the request: ", "%q", raw)
	}
}
