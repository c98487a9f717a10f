package queue_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// witness watches every state of the Backups of a site, in order, and checks the rules that hold for any number of
// servers.
type witness struct {
	limit int

	mu     sync.Mutex
	phase  map[types.UID]velerov1.BackupPhase
	begun  map[types.UID]int // number of transitions to InProgress
	broken []string
}

// watchBackups starts a witness.
func watchBackups(s *site.Site, limit int) *witness {
	s.T.Helper()
	w := &witness{limit: limit, phase: map[types.UID]velerov1.BackupPhase{}, begun: map[types.UID]int{}}
	s.EachState(w.sees)
	return w
}

func (w *witness) sees(b *velerov1.Backup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.phase[b.UID]
	w.phase[b.UID] = b.Status.Phase
	if was != b.Status.Phase && b.Status.Phase == velerov1.BackupPhaseInProgress {
		if w.begun[b.UID]++; w.begun[b.UID] > 1 {
			w.broken = append(w.broken, b.Name+" was started twice")
		}
	}
	places := 0
	for _, phase := range w.phase {
		if phase == velerov1.BackupPhaseReadyToStart || phase == velerov1.BackupPhaseInProgress {
			places++
		}
	}
	if places > w.limit {
		w.broken = append(w.broken, fmt.Sprintf("%d have a place when %s is %s", places, b.Name, b.Status.Phase))
	}
}

// require fails the test if a rule was broken.
func (w *witness) require(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.broken)
}

// writesPhases matches the writes of Backups. Each moves a backup to a phase or to a position in the queue.
var writesPhases = site.WritesTo("backups")

// TestAcceptQueue_KillEverywhere kills the server with SIGKILL before and after each write of the queue and of the
// phases of three backups, two of which overlap. The next server must complete all of them, and start none twice.
func TestAcceptQueue_KillEverywhere(t *testing.T) {
	t.Parallel()
	const limit, least = 2, 14
	s := site.New(t, "cleat.dev/file")
	s.Resources = site.Few()
	g := &site.Gate{}
	s.ServerKubeconfig, _ = g.Behind(t, s.Cluster)
	shop, yard := s.Workload(2), s.Workload(2)
	witness := watchBackups(s, limit)
	server := s.Serve("--concurrent-backups", fmt.Sprint(limit))
	s.Available()
	for _, when := range []site.Moment{site.Before, site.After} {
		for n := 1; ; n++ {
			names := []string{fmt.Sprintf("%s-%d-a", when, n), fmt.Sprintf("%s-%d-b", when, n), fmt.Sprintf("%s-%d-c", when, n)}
			hit := g.Arm(n, when, writesPhases)
			s.BeginBackupOf(names[0], shop)
			s.BeginBackupOf(names[1], shop)
			s.BeginBackupOf(names[2], yard)
			held := heldOrAllDone(s, hit, names)
			if held == "" {
				require.Greater(t, n, least, "fewer writes than expected")
				g.Disarm()
				break
			}
			server.Kill()
			g.Disarm()
			t.Logf("killed %s write %d: %s", when, n, held)
			server = s.Serve("--concurrent-backups", fmt.Sprint(limit))
			for _, name := range names {
				s.CheckBackup(name)
			}
			witness.require(t)
		}
	}
}

// heldOrAllDone waits until a write is held and returns it, or until all backups have ended.
func heldOrAllDone(s *site.Site, hit <-chan string, names []string) (held string) {
	s.T.Helper()
	s.Eventually("a write is held or all backups have ended", func(ctx context.Context) (bool, error) {
		all := true
		for _, name := range names {
			done, err := s.Done(ctx, name, "backup")
			if err != nil {
				return false, err
			}
			all = all && done
		}
		select { // even if all have ended: the server continues while its write is held
		case held = <-hit:
			return true, nil
		default:
			return all, nil
		}
	})
	return held
}

// TestAcceptQueue_TwoServers runs two servers in one namespace, as in a rolling update. One leads and the other waits.
// The leader is stopped, killed, or hangs for longer than its lease.
func TestAcceptQueue_TwoServers(t *testing.T) {
	t.Parallel()
	const limit = 2
	s := site.New(t, "cleat.dev/file")
	s.Several = true
	var shops []string
	for range 3 {
		shops = append(shops, s.Workload(2))
	}
	witness := watchBackups(s, limit)
	serve := func() *site.Server {
		return s.Serve("--concurrent-backups", fmt.Sprint(limit), "--leader-elect-lease-duration", "20s")
	}
	one := serve()
	s.Available()
	one.AwaitLog("this server leads")
	two := serve()
	two.AwaitLog("another server leads, this one stands by")

	round := 0
	all := func(during func()) {
		round++
		var names []string
		for i := range 6 {
			names = append(names, fmt.Sprintf("r%d-%d", round, i))
			s.BeginBackupOf(names[i], shops[i%3])
		}
		during()
		for _, name := range names {
			s.Eventually("backup "+name+" has ended",
				func(ctx context.Context) (bool, error) { return s.Done(ctx, name, "backup") })
		}
		witness.require(t)
	}
	all(func() {})
	require.False(t, site.Leads(two))

	// In a rolling update the old server ends cleanly, and the new one leads at once.
	all(func() { require.NoError(t, one.Stop()) })
	two.AwaitLog("this server leads")

	three := serve()
	all(func() { two.Kill() })
	three.AwaitLog("this server leads")

	// A server that hung detects that it no longer leads, and ends.
	four := serve()
	all(func() {
		require.NoError(t, three.Cmd.Process.Signal(syscall.SIGSTOP))
		four.AwaitLog("this server leads")
		require.NoError(t, three.Cmd.Process.Signal(syscall.SIGCONT))
	})
	require.Error(t, three.Wait())
	require.Contains(t, three.Log.String(), "this server does not lead any more: its lease could not be renewed in time")
}

func TestStandbyServerStopsOnSIGTERM(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Several = true
	s.Serve()
	s.Available()
	two := s.Serve()
	two.AwaitLog("another server leads")
	require.NoError(t, two.Stop())
	require.NotContains(t, two.Log.String(), "this server leads")
}
