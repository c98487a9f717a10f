package volumesnapshotter

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidateIDRequiresID(t *testing.T) {
	t.Parallel()
	require.NoError(t, validateID("snapshot", "snap-1"))
	require.EqualError(t, validateID("snapshot", ""), "the new snapshot has no id")
}

func TestValidateIOPSRejectsNegative(t *testing.T) {
	t.Parallel()
	require.NoError(t, validateIOPS(0))
	require.NoError(t, validateIOPS(math.MaxInt64))
	require.ErrorContains(t, validateIOPS(-1), "cannot have -1 operations")
}

func TestValidatePersistentVolumeRequiresTheSameObject(t *testing.T) {
	t.Parallel()
	const sent = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-1"}}`
	for name, test := range map[string]struct{ sent, answered, want string }{
		"unchanged": {sent, sent, ""},
		"changed": {sent,
			`{"spec":{"csi":{"volumeHandle":"v"}},"kind":"PersistentVolume","metadata":{"name":"pv-1"},"apiVersion":"v1"}`, ""},
		"empty":   {sent, "", "persistentVolume is empty"},
		"garbage": {sent, "garbage", "persistentVolume is not JSON"},
		"null":    {sent, "null", "persistentVolume is not a JSON object"},
		"another name": {sent, `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-2"}}`,
			`is v1 PersistentVolume "pv-2", want v1 PersistentVolume "pv-1"`},
		"another kind": {sent, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"pv-1"}}`,
			"is v1 PersistentVolumeClaim"},
		"another API version": {sent, `{"apiVersion":"v2","kind":"PersistentVolume","metadata":{"name":"pv-1"}}`,
			"is v2 PersistentVolume"},
		"not asked about one": {"garbage", sent, "the persistentVolume sent to the snapshotter is not JSON"},
	} {
		err := validatePersistentVolume([]byte(test.sent), []byte(test.answered))
		if test.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.want, name)
		}
	}
}

// FuzzValidatePersistentVolume proves that only the same PersistentVolume is accepted.
func FuzzValidatePersistentVolume(f *testing.F) {
	sent := []byte(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-1"}}`)
	for _, seed := range []string{"", "null", string(sent), string(sent) + " ", `{"kind":"PersistentVolume"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answered []byte) {
		if validatePersistentVolume(sent, answered) != nil {
			return
		}
		var object, metadata map[string]json.RawMessage // exact member names
		require.NoError(t, json.Unmarshal(answered, &object))
		require.NoError(t, json.Unmarshal(object["metadata"], &metadata))
		for raw, want := range map[string]string{
			string(object["kind"]): "PersistentVolume", string(object["apiVersion"]): "v1", string(metadata["name"]): "pv-1",
		} {
			var got string
			require.NoError(t, json.Unmarshal([]byte(raw), &got))
			require.Equal(t, want, got)
		}
	})
}
