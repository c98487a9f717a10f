package operation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// TestForgedJournalsStartAndCancelNothing adds a journal, and records to one of the server, as a client that may write
// ConfigMaps.
func TestForgedJournalsStartAndCancelNothing(t *testing.T) {
	t.Parallel()
	a := newAPI()
	journals := a.journals()
	genuine := journals.New(nightly())
	require.NoError(t, genuine.Started(t.Context(), startOf("data"), "op-1"))
	var pages corev1.ConfigMapList
	require.NoError(t, a.List(t.Context(), &pages))
	require.Len(t, pages.Items, 1)
	page := &pages.Items[0]

	const made = `{"call":1,"begin":{"action":"a.io/copy","item":{"resource":"persistentvolumeclaims","namespace":"shop","name":"other"},"keyed":true}}` + "\n"
	forged := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "velero", Name: "cleat-operations-backup-u-9-0", Labels: map[string]string{operation.KindLabel: "backup",
				operation.UIDLabel: "u-9"},
			Annotations: map[string]string{"cleat.dev/owner": "velero/none"},
		},
		Data: map[string]string{"000001-abcdefgh": made,
			"owner": `{"kind":"Backup","namespace":"velero","name":"none","uid":"u-9"}`},
	}
	require.NoError(t, a.Create(t.Context(), forged))
	copied := page.DeepCopy() // of the journal of another backup
	copied.Name, copied.ResourceVersion, copied.Labels[operation.UIDLabel] = "cleat-operations-backup-u-8-0", "", "u-8"
	require.NoError(t, a.Create(t.Context(), copied))
	for _, uid := range []string{"u-8", "u-9"} {
		journal, err := journals.Load(t.Context(), types.UID(uid))
		require.NoError(t, err)
		require.Nil(t, journal, "nobody looks after it")
	}

	before := page.DeepCopy()
	page.Data["000002-abcdefgh"] = made
	require.NoError(t, a.Patch(t.Context(), page, client.MergeFrom(before)))
	journal, err := journals.Open(t.Context(), nightly())
	require.NoError(t, err)
	require.ErrorContains(t, journal.Damage(), "has no proof that this server has written it")
	require.Len(t, journal.Starts(), 1)
	require.Equal(t, "op-1", journal.Starts()[0].ID)
}
