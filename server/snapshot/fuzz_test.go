package snapshot

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oneRecord is an API server with one ConfigMap.
type oneRecord struct {
	client.Reader
	text string
}

func (o oneRecord) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if found, is := list.(*corev1.ConfigMapList); is {
		found.Items = []corev1.ConfigMap{{Data: map[string]string{recordKey: o.text, idKey: "id"}}}
	}
	return nil
}

// FuzzRecords reads any record of a snapshot.
func FuzzRecords(f *testing.F) {
	f.Add(`{"backup":{"name":"b"},"snapshot":{"spec":{},"status":{}}}`)
	f.Add(`null`)
	f.Add(`[null]`)
	f.Fuzz(func(t *testing.T, text string) {
		found, damaged, err := NewRecords(nil, oneRecord{text: text}, "velero", hclog.NewNullLogger()).Of(t.Context(), "uid")
		require.NoError(t, err)
		require.Equal(t, 1, len(found)+len(damaged))
		for _, record := range found {
			require.Equal(t, "id", record.Snapshot.Status.ProviderSnapshotID)
		}
	})
}
