package volumes

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// oneRecord is an API server with one ConfigMap, which is signed.
type oneRecord struct {
	client.Reader
	key  *signing.Key
	text string
}

func (o oneRecord) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if found, is := list.(*corev1.ConfigMapList); is {
		found.Items = []corev1.ConfigMap{{Data: map[string]string{
			recordKey: o.text, recordProofKey: o.key.Sign("snapshot", "", "uid", o.text), idKey: "id",
			idProofKey: o.key.Sign("snapshot id", "", "id"),
		}}}
	}
	return nil
}

// FuzzRecords reads any record of a snapshot.
func FuzzRecords(f *testing.F) {
	f.Add(`{"backup":{"name":"b"},"snapshot":{"spec":{},"status":{}}}`)
	f.Add(`null`)
	f.Add(`[null]`)
	f.Fuzz(func(t *testing.T, text string) {
		key := signing.NewKey([]byte("of tests"))
		found, damaged, err := NewRecords(nil, oneRecord{key: key, text: text}, "velero", signing.Fixed(key),
			hclog.NewNullLogger()).Of(t.Context(), "uid")
		require.NoError(t, err)
		require.Equal(t, 1, len(found)+len(damaged))
		for _, record := range found {
			require.Equal(t, "id", record.Snapshot.Status.ProviderSnapshotID)
		}
	})
}
