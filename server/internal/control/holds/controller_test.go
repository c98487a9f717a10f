package holds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/holds"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// vault is an object store with one file of each backup, which it holds.
type vault struct {
	objectstore.Store
	uid     string // in velero-backup.json
	missing bool
	err     error

	mu   sync.Mutex
	held map[string]bool
}

// Open implements run.Stores.
func (v *vault) Open(context.Context, *velerov1.BackupStorageLocation) (*store.Store, error) {
	return store.New(v, "bucket", ""), nil
}

func (v *vault) ObjectExists(context.Context, string, string) (bool, error) { return !v.missing, nil }

func (v *vault) GetObject(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(`{"metadata":{"uid":"` + v.uid + `"}}`)), nil
}

func (v *vault) ListObjects(_ context.Context, _, prefix string) ([]string, error) {
	return []string{prefix + "velero-backup.json", prefix + "log"}, nil
}

func (v *vault) SetHold(_ context.Context, _, key string, on bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held[key] = on
	return v.err
}

func TestHolds(t *testing.T) {
	t.Parallel()
	hold, held, failure := velerov1.HoldAnnotation, velerov1.HeldAnnotation, velerov1.HoldFailureAnnotation
	completed := controllertest.InPhase(velerov1.BackupPhaseCompleted)
	for name, test := range map[string]struct {
		annotations map[string]string
		phase       func(*velerov1.Backup)
		vault       *vault
		foreign     bool
		on          any // what the files get; nil for nothing
		want        map[string]string
		failure     string
		again       time.Duration
	}{
		"on": {annotations: map[string]string{hold: "true", failure: "old"}, on: true,
			want: map[string]string{hold: "true", held: "true"}},
		"off": {annotations: map[string]string{hold: "false", held: "true"}, on: false,
			want: map[string]string{}},
		"off in a new cluster": {annotations: map[string]string{hold: "false"}, on: false, want: map[string]string{}},
		"done": {annotations: map[string]string{hold: "true", held: "true"},
			want: map[string]string{hold: "true", held: "true"}},
		"not asked": {want: map[string]string{}},
		"not yet": {annotations: map[string]string{hold: "true"},
			phase: controllertest.InPhase(velerov1.BackupPhaseFinalizing),
			want:  map[string]string{hold: "true"}},
		"neither": {annotations: map[string]string{hold: "yes"}, want: map[string]string{},
			failure: `the annotation cleat.dev/hold is "yes", want true or false`},
		"a store that cannot": {annotations: map[string]string{hold: "true"},
			vault: &vault{err: errors.ErrUnsupported}, on: true,
			want: map[string]string{}, failure: "unsupported operation"},
		"a store that fails": {annotations: map[string]string{hold: "true"},
			vault: &vault{err: errors.New("on fire")}, on: true,
			want: map[string]string{hold: "true"}, failure: "on fire", again: time.Minute},
		"no files": {annotations: map[string]string{hold: "true"}, vault: &vault{missing: true}, want: map[string]string{},
			failure: "not found in object storage"},
		"the files of another one": {annotations: map[string]string{hold: "true"}, foreign: true, want: map[string]string{},
			failure: "the object storage holds another backup of that name"},
		"no location": {annotations: map[string]string{hold: "true"}, phase: func(b *velerov1.Backup) {
			completed(b)
			b.Spec.StorageLocation = "none"
		}, want: map[string]string{hold: "true"}, failure: "the backup storage location does not exist", again: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewCluster(t, nil)
			b := controllertest.NewBackup("b", completed)
			b.Spec.StorageLocation, b.Annotations = "default", test.annotations
			if test.phase != nil {
				test.phase(b)
			}
			c.Add(t, controllertest.NewLocation("default"), b)
			v := test.vault
			if v == nil {
				v = &vault{}
			}
			v.uid, v.held = string(c.Backup(t, "b").UID), map[string]bool{}
			if test.foreign {
				v.uid = "another"
			}
			r := &holds.Controller{Cluster: c.Cluster, Stores: v, Events: events.NewFakeRecorder(10),
				Log: hclog.NewNullLogger()}
			result, err := r.Reconcile(t.Context(), c.Request("b"))
			require.NoError(t, err)
			require.Equal(t, test.again, result.RequeueAfter)
			got := map[string]string{}
			for key, value := range c.Backup(t, "b").Annotations {
				if strings.HasPrefix(key, "cleat.dev/h") {
					got[key] = value
				}
			}
			require.Contains(t, got[failure], test.failure)
			if test.failure != "" {
				delete(got, failure)
			}
			require.Equal(t, test.want, got)
			if test.on == nil {
				require.Empty(t, v.held)
			} else {
				require.Contains(t, fmt.Sprint(v.held), fmt.Sprintf("backups/b/log:%t", test.on))
			}
		})
	}
}
