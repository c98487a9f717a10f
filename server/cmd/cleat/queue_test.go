package main_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
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
func (s *site) watchBackups(limit int) *witness {
	s.t.Helper()
	w := &witness{limit: limit, phase: map[types.UID]velerov1.BackupPhase{}, begun: map[types.UID]int{}}
	s.eachState(w.sees)
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
var writesPhases = writesTo("backups")

// TestAcceptQueue_KillEverywhere kills the server with SIGKILL before and after each write of the queue and of the
// phases of three backups, two of which overlap. The next server must complete all of them, and start none twice.
func TestAcceptQueue_KillEverywhere(t *testing.T) {
	t.Parallel()
	const limit, least = 2, 14
	s := newSite(t, "cleat.dev/file")
	s.resources = few()
	g := &gate{}
	s.serverKubeconfig, _ = g.behind(t, s.cluster)
	shop, yard := s.workload(2), s.workload(2)
	witness := s.watchBackups(limit)
	server := s.serve("--concurrent-backups", fmt.Sprint(limit))
	s.available()
	for _, when := range []moment{before, after} {
		for n := 1; ; n++ {
			names := []string{fmt.Sprintf("%s-%d-a", when, n), fmt.Sprintf("%s-%d-b", when, n), fmt.Sprintf("%s-%d-c", when, n)}
			hit := g.arm(n, when, writesPhases)
			s.beginBackupOf(names[0], shop)
			s.beginBackupOf(names[1], shop)
			s.beginBackupOf(names[2], yard)
			held := s.heldOrAllDone(hit, names)
			if held == "" {
				require.Greater(t, n, least, "fewer writes than expected")
				g.disarm()
				break
			}
			server.kill()
			g.disarm()
			t.Logf("killed %s write %d: %s", when, n, held)
			server = s.serve("--concurrent-backups", fmt.Sprint(limit))
			for _, name := range names {
				s.checkBackup(name)
			}
			witness.require(t)
		}
	}
}

// heldOrAllDone waits until a write is held and returns it, or until all backups have ended.
func (s *site) heldOrAllDone(hit <-chan string, names []string) (held string) {
	s.t.Helper()
	s.eventually("a write is held or all backups have ended", func(ctx context.Context) (bool, error) {
		all := true
		for _, name := range names {
			done, err := s.done(ctx, name, "backup")
			if err != nil {
				return false, err
			}
			all = all && done
		}
		select { // even if all have ended: the server goes on while its write is held
		case held = <-hit:
			return true, nil
		default:
			return all, nil
		}
	})
	return held
}

// TestAcceptQueue_TwoServers runs two servers in one namespace, as in a rolling update. One leads and the other stands
// by. The leader is stopped, killed, or hangs for longer than its lease.
func TestAcceptQueue_TwoServers(t *testing.T) {
	t.Parallel()
	const limit = 2
	s := newSite(t, "cleat.dev/file")
	s.several = true
	var shops []string
	for range 3 {
		shops = append(shops, s.workload(2))
	}
	witness := s.watchBackups(limit)
	serve := func() *server {
		return s.serve("--concurrent-backups", fmt.Sprint(limit), "--leader-elect-lease-duration", "12s")
	}
	one := serve()
	s.available()
	one.awaitLog("this server leads")
	two := serve()
	two.awaitLog("another server leads, this one stands by")

	round := 0
	all := func(during func()) {
		round++
		var names []string
		for i := range 6 {
			names = append(names, fmt.Sprintf("r%d-%d", round, i))
			s.beginBackupOf(names[i], shops[i%3])
		}
		during()
		for _, name := range names {
			s.eventually("backup "+name+" has ended",
				func(ctx context.Context) (bool, error) { return s.done(ctx, name, "backup") })
		}
		witness.require(t)
	}
	all(func() {})
	require.False(t, leads(two))

	// In a rolling update the old server ends cleanly, and the new one leads at once.
	all(func() { require.NoError(t, one.stop()) })
	two.awaitLog("this server leads")

	three := serve()
	all(func() { two.kill() })
	three.awaitLog("this server leads")

	// A server that hung finds that it no longer leads, and ends.
	four := serve()
	all(func() {
		require.NoError(t, three.cmd.Process.Signal(syscall.SIGSTOP))
		four.awaitLog("this server leads")
		require.NoError(t, three.cmd.Process.Signal(syscall.SIGCONT))
	})
	require.Error(t, three.wait())
	require.Contains(t, three.log.String(), "this server does not lead any more: its lease could not be renewed in time")
}

func TestStandbyServerStopsOnSIGTERM(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.several = true
	s.serve()
	s.available()
	two := s.serve()
	two.awaitLog("another server leads")
	require.NoError(t, two.stop())
	require.NotContains(t, two.log.String(), "this server leads")
}
