package deletions

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// keeper is an object store that has the velero-backup.json of any backup, and keeps it.
type keeper struct {
	objectstore.Store
	uid  string
	kept objectstore.Retention
	err  error
}

// Open implements run.Stores.
func (k *keeper) Open(context.Context, *velerov1.BackupStorageLocation) (*store.Store, error) {
	return store.New(k, "bucket", ""), nil
}

func (k *keeper) ObjectExists(context.Context, string, string) (bool, error) { return true, nil }

func (k *keeper) GetObject(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(`{"metadata":{"uid":"` + k.uid + `"}}`)), nil
}

func (k *keeper) ListObjects(_ context.Context, _, prefix string) ([]string, error) {
	return []string{prefix + "velero-backup.json"}, nil
}

func (k *keeper) Retention(context.Context, string, string) (*objectstore.Retention, error) {
	return &k.kept, k.err
}

func TestKeptBackupIsNotTouched(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	locked := objectstore.Retention{Mode: osv1.ModeCompliance, Until: until}
	hold := func(b *velerov1.Backup) { b.Annotations = map[string]string{velerov1.HoldAnnotation: "true"} }
	for name, test := range map[string]struct {
		kept    objectstore.Retention
		err     error
		change  func(*velerov1.Backup)
		foreign bool
		state   string // of the request; "" if it is not kept
		refused string
		again   time.Duration
	}{
		"locked":            {kept: locked, state: "kept until " + until.Format(time.RFC3339), again: lookAgain},
		"held":              {kept: objectstore.Retention{Held: true}, state: "kept: held", again: lookAgain},
		"hold is requested": {change: hold, state: "kept: held", again: lookAgain},
		"locked for minutes": {kept: objectstore.Retention{Mode: osv1.ModeGovernance,
			Until: time.Now().Add(2 * time.Minute)},
			state: "kept until ", again: 2*time.Minute + afterLock},
		"it cannot be known": {err: errors.New("no right"),
			refused: "it is not known whether its bucket keeps it: "},
		"the files of another one are locked": {kept: locked, foreign: true, refused: "no calls of plugins"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewCluster(t, nil)
			b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseCompleted))
			b.Spec.StorageLocation = "default"
			if test.change != nil {
				test.change(b)
			}
			request := &velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Name: "d"},
				Spec: velerov1.DeleteBackupRequestSpec{BackupName: "b"}}
			c.Add(t, controllertest.NewLocation("default"), b, request)
			objects := &keeper{uid: string(c.Backup(t, "b").UID), kept: test.kept, err: test.err}
			if test.foreign {
				objects.uid = "another"
			}
			r := &Controller{Cluster: c.Cluster, Stores: objects, Log: hclog.NewNullLogger(), Now: time.Now}
			for range 2 { // the second changes nothing
				result, err := r.Reconcile(t.Context(), c.Request("d"))
				require.NoError(t, err)
				if test.foreign { // only the Backup goes
					require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("b").NamespacedName, &velerov1.Backup{})))
					return
				}
				now := c.Backup(t, "b")
				require.Equal(t, velerov1.BackupPhaseCompleted, now.Status.Phase)
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(request), request))
				require.Len(t, request.Status.Errors, 1)
				if test.refused != "" {
					require.Contains(t, request.Status.Errors[0], test.refused)
					require.Equal(t, velerov1.DeleteBackupRequestPhaseProcessed, request.Status.Phase)
					return
				}
				require.Contains(t, request.Status.Errors[0], test.state)
				require.Equal(t, velerov1.DeleteBackupRequestPhaseNew, request.Status.Phase)
				require.Contains(t, velerov1.KeptText(now.Annotations[velerov1.KeptAnnotation]), test.state)
				require.InDelta(t, test.again, result.RequeueAfter, float64(time.Minute))
			}
			// The location is away when the request is looked at again.
			var l velerov1.BackupStorageLocation
			require.NoError(t, c.Get(t.Context(), c.Request("default").NamespacedName, &l))
			l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
			require.NoError(t, c.Update(t.Context(), &l))
			result, err := r.Reconcile(t.Context(), c.Request("d"))
			require.NoError(t, err)
			require.Equal(t, run.WaitDelay, result.RequeueAfter)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(request), request))
			require.Contains(t, request.Status.Errors[0], "waits: ")
		})
	}
}

func TestLockedErrorsKeepABackup(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)
	kept := keptBy(framework.Locked(until, false, "delete backups/b/log: locked"))
	require.EqualError(t, kept, "kept until 2026-11-27T18:00:00Z")
	require.Equal(t, "2026-11-27T18:00:00Z", kept.annotation())
	require.EqualError(t, keptBy(framework.Locked(until, true, "held")), "kept: held")
	require.Nil(t, keptBy(errors.New("broken")))
	require.Nil(t, keptBy(nil))
}
