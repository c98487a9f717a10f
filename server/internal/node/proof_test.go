package node

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
)

// modelKeys are Keys with a secret that does not change.
type modelKeys struct{}

func (modelKeys) Of(_ context.Context, kind string, uid types.UID) (loadproof.Key, error) {
	return loadproof.Parse(loadproof.Derive([]byte("secret"), kind, string(uid))), nil
}

func (k modelKeys) Verify(
	ctx context.Context, kind string, uid types.UID, check func(loadproof.Key) error,
) (wrong, err error) {
	key, err := k.Of(ctx, kind, uid)
	return check(key), err
}

// modelBackup returns the backup to which the loads of models belong.
func modelBackup() *velerov1.Backup {
	return &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: "b", UID: "uid-of-b"},
		Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseInProgress},
	}
}

// signed makes a load belong to the backup of models. It signs the load as its creator and, if the load has a status,
// as an agent.
func signed[T client.Object](t *testing.T, load T) T {
	t.Helper()
	load.SetOwnerReferences([]metav1.OwnerReference{velerov1.ControllerRef("Backup", modelBackup())})
	key, err := modelKeys{}.Of(t.Context(), "Backup", modelBackup().UID)
	require.NoError(t, err)
	require.NoError(t, key.Sign(load))
	require.NoError(t, key.SignStatus(load))
	return load
}

func TestLoadsThatNobodyStandsBehindAreRefused(t *testing.T) {
	t.Parallel()
	upload := func(name string) *velerov2alpha1.DataUpload {
		u := &velerov2alpha1.DataUpload{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: name,
			UID: types.UID("uid-" + name)}}
		u.Spec.DataMover, u.Spec.SourceNamespace = "mover", "victim"
		return u
	}
	replayed := upload("replayed")
	replayed.Annotations = signed(t, upload("source")).Annotations
	replayed.OwnerReferences = []metav1.OwnerReference{velerov1.ControllerRef("Backup", modelBackup())}
	changed := signed(t, upload("changed"))
	changed.Spec.SourceNamespace = "other"
	relabelled := signed(t, upload("relabelled"))
	relabelled.Labels = map[string]string{velerov1.AsyncOperationIDLabel: "of-another"}
	ended := modelBackup()
	ended.Status.Phase = velerov1.BackupPhaseCompleted
	for name, row := range map[string]struct {
		load   *velerov2alpha1.DataUpload
		status velerov1.LoadPhase // as the creator has written it
		backup *velerov1.Backup   // nil for the one of the model
		want   velerov1.LoadPhase
		why    string
	}{
		"proven": {load: signed(t, upload("proven")), want: velerov1.LoadPhaseAccepted},
		"cancel may change": {load: func() *velerov2alpha1.DataUpload {
			u := signed(t,
				upload("c"))
			u.Spec.Cancel = true
			return u
		}(), want: velerov1.LoadPhaseCanceled, why: "spec.cancel"},
		"unsigned": {load: upload("unsigned"), want: velerov1.LoadPhaseFailed, why: "no Backup controls it"},
		"unsigned, Prepared": {load: upload("prepared"), status: velerov1.LoadPhasePrepared, want: velerov1.LoadPhaseFailed,
			why: "refused"},
		"unsigned, cancelled": {load: func() *velerov2alpha1.DataUpload {
			u := upload(
				"uc",
			)
			u.Spec.Cancel = true
			return u
		}(), want: velerov1.LoadPhaseFailed, why: "refused"},
		"a replay": {load: replayed, want: velerov1.LoadPhaseFailed, why: "its signature is not valid"},
		"changed":  {load: changed, want: velerov1.LoadPhaseFailed, why: "its signature is not valid"},
		"of another operation": {
			load: relabelled, want: velerov1.LoadPhaseFailed, why: "its signature is not valid",
		},
		"the status of its maker": {load: signed(t, upload("forged")), status: velerov1.LoadPhaseInProgress,
			want: velerov1.LoadPhaseAccepted},
		"an ended backup": {load: signed(t, upload("late")), backup: ended, want: velerov1.LoadPhaseFailed,
			why: "Backup b is \"Completed\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1, 1)
			m.limit = 10
			if row.backup != nil {
				require.NoError(t, m.store.Delete(t.Context(), modelBackup()))
				require.NoError(t, m.store.Create(t.Context(), row.backup))
			}
			row.load.Status.Phase, row.load.Status.SnapshotID = row.status, "foreign"
			require.NoError(t, m.store.Create(t.Context(), row.load))
			for range 3 {
				m.agents[0].sync(1)
				_, err := m.agents[0].q.pass(t.Context())
				require.NoError(t, err)
			}
			require.NoError(t, m.store.Get(t.Context(), client.ObjectKeyFromObject(row.load), row.load))
			require.Equal(t, row.want, row.load.Status.Phase, row.load.Status.Message)
			require.Contains(t, row.load.Status.Message, row.why)
			if row.want == velerov1.LoadPhaseAccepted {
				require.Empty(t, row.load.Status.SnapshotID, "what its maker has written is removed")
			}
		})
	}
}

func TestFloodOfUnsignedLoadsTakesNoPosition(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1, 1)
	m.limit = 1
	for i := range 3 * refusedOnce {
		u := &velerov2alpha1.DataUpload{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: "flood-" +
			strings.Repeat("x", i), UID: types.UID("flood-" + strings.Repeat("x", i))}}
		u.Spec.DataMover, u.Status.Phase = "mover", velerov1.LoadPhaseAccepted
		require.NoError(t, m.store.Create(t.Context(), u))
	}
	proven := &velerov2alpha1.DataUpload{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: "proven",
		UID: "proven"}}
	proven.Spec.DataMover = "mover"
	require.NoError(t, m.store.Create(t.Context(), signed(t, proven)))
	a := m.agents[0]
	for range 2 { // the first pass registers the agent in the ledger
		a.sync(1)
		_, err := a.q.pass(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, m.store.Get(t.Context(), client.ObjectKeyFromObject(proven), proven))
	require.Equal(t, velerov1.LoadPhaseAccepted, proven.Status.Phase)
	cm := new(corev1.ConfigMap)
	require.NoError(t, m.store.Get(t.Context(), client.ObjectKey{Namespace: modelNamespace, Name: ledger.Name}, cm))
	require.NotContains(t, cm.Data["loads"], "flood")
}
