package main_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptBackup_KillServerAtEveryPhase kills the server with SIGKILL between any two writes that it makes to the API
// server or to S3 during a backup, a restore and a deletion. The next server must complete what was in progress, and
// the bucket must hold complete backups only.
func TestAcceptBackup_KillServerAtEveryPhase(t *testing.T) {
	t.Parallel()
	courses := map[string]struct {
		writes  []string // resources that are written to
		least   int      // number of writes that the course makes at least
		prepare func(*site, string)
		begin   func(*site, string)
		check   func(*site, string)
	}{
		"backup": {
			writes: []string{"backups"}, least: 12,
			prepare: func(*site, string) {},
			begin:   (*site).beginBackup,
			check:   (*site).checkBackup,
		},
		"restore": {
			writes: []string{"restores"}, least: 7,
			prepare: (*site).wholeBackup,
			begin:   (*site).beginRestore,
			check:   (*site).checkRestore,
		},
		"deletion": {
			writes: []string{"backups", "restores", "deletebackuprequests"}, least: 12,
			prepare: (*site).wholeBackupAndRestore,
			begin:   (*site).beginDeletion,
			check:   (*site).checkDeleted,
		},
	}
	for name, course := range courses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newGatedSite(t)
			s.resources = few()
			s.shop = s.workload(5)
			server := s.serve()
			s.available()
			writes := everyWrite(func(n int, when moment) bool {
				id := fmt.Sprintf("%s-%d", when, n)
				course.prepare(s, id)
				hit := g.arm(n, when, writesTo(course.writes...))
				course.begin(s, id)
				held := s.heldOrDone(hit, id, name)
				if held == "" {
					g.disarm()
					return false
				}
				server.kill()
				g.disarm()
				t.Logf("killed %s write %d: %s", when, n, held)
				server = s.serve()
				course.check(s, id)
				return true
			})
			require.GreaterOrEqual(t, writes, course.least, "fewer writes than expected")
		})
	}
}

// heldOrDone waits until a write is held and returns it, or until the course is done.
func (s *site) heldOrDone(hit <-chan string, id, course string) (held string) {
	s.t.Helper()
	s.eventually("a write is held or the course is done", func(ctx context.Context) (bool, error) {
		done, err := s.done(ctx, id, course)
		select { // even if it is done: the server goes on while its write is held
		case held = <-hit:
			return true, nil
		default:
			return done, err
		}
	})
	return held
}

// wholeBackupAndRestore creates a backup and a restore from it, for deletion.
func (s *site) wholeBackupAndRestore(name string) {
	s.beginBackup(name)
	s.awaitBackup(name, velerov1.BackupPhaseCompleted)
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: name, NamespaceMapping: map[string]string{s.shop: s.shop + "-copy"}},
	}))
	s.eventually("the restore has ended", func(ctx context.Context) (bool, error) {
		var r velerov1.Restore
		err := s.client.Get(ctx, s.key(name), &r)
		return r.Status.Phase == velerov1.RestorePhaseCompleted, err
	})
}
