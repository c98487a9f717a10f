package backups_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptBackup_KillServerAtEveryPhase kills the server with SIGKILL between any two of its writes to the API
// server or to S3 during a backup, a restore and a deletion. The next server must complete the work in progress, and
// the bucket must hold complete backups only.
func TestAcceptBackup_KillServerAtEveryPhase(t *testing.T) {
	t.Parallel()
	courses := map[string]struct {
		writes  []string // written resources
		least   int      // minimum number of writes of the course
		prepare func(*site.Site, string)
		begin   func(*site.Site, string)
		check   func(*site.Site, string)
	}{
		"backup": {
			writes: []string{"backups"}, least: 12,
			prepare: func(*site.Site, string) {},
			begin:   (*site.Site).BeginBackup,
			check:   (*site.Site).CheckBackup,
		},
		"restore": {
			writes: []string{"restores"}, least: 7,
			prepare: (*site.Site).WholeBackup,
			begin:   (*site.Site).BeginRestore,
			check:   (*site.Site).CheckRestore,
		},
		"deletion": {
			writes: []string{"backups", "restores", "deletebackuprequests"}, least: 12,
			prepare: wholeBackupAndRestore,
			begin:   (*site.Site).BeginDeletion,
			check:   (*site.Site).CheckDeleted,
		},
	}
	for name, course := range courses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := site.NewGated(t)
			s.Resources = site.Few()
			s.Shop = s.Workload(5)
			server := s.Serve()
			s.Available()
			writes := site.EveryWrite(func(n int, when site.Moment) bool {
				id := fmt.Sprintf("%s-%d", when, n)
				course.prepare(s, id)
				hit := g.Arm(n, when, site.WritesTo(course.writes...))
				course.begin(s, id)
				held := heldOrDone(s, hit, id, name)
				if held == "" {
					g.Disarm()
					return false
				}
				server.Kill()
				g.Disarm()
				t.Logf("killed %s write %d: %s", when, n, held)
				server = s.Serve()
				course.check(s, id)
				return true
			})
			require.GreaterOrEqual(t, writes, course.least, "fewer writes than expected")
		})
	}
}

// heldOrDone waits until a write is held and returns it, or until the course has ended.
func heldOrDone(s *site.Site, hit <-chan string, id, course string) (held string) {
	s.T.Helper()
	s.Eventually("a write is held or the course is done", func(ctx context.Context) (bool, error) {
		done, err := s.Done(ctx, id, course)
		select { // even if the course has ended: the server continues while its write is held
		case held = <-hit:
			return true, nil
		default:
			return done, err
		}
	})
	return held
}

// wholeBackupAndRestore creates a backup and a restore from it, for deletion.
func wholeBackupAndRestore(s *site.Site, name string) {
	s.BeginBackup(name)
	s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: name, NamespaceMapping: map[string]string{s.Shop: s.Shop + "-copy"}},
	}))
	s.Eventually("the restore has ended", func(ctx context.Context) (bool, error) {
		var r velerov1.Restore
		err := s.Client.Get(ctx, s.Key(name), &r)
		return r.Status.Phase == velerov1.RestorePhaseCompleted, err
	})
}
