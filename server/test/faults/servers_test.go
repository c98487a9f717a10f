package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// completions watches the Backups of a site. It counts the changes of phases, and how often each Backup becomes
// Completed.
type completions struct {
	mu        sync.Mutex
	changes   int
	phase     map[string]velerov1.BackupPhase
	completed map[string]int
	failed    []string
	claims    map[string]bool // "name claim"
}

func watchCompletions(s *site.Site) *completions {
	s.T.Helper()
	c := &completions{phase: map[string]velerov1.BackupPhase{}, completed: map[string]int{}, claims: map[string]bool{}}
	s.EachState(func(b *velerov1.Backup) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.claims[b.Name+" "+b.Annotations["cleat.dev/claim"]] = true
		if c.phase[b.Name] == b.Status.Phase {
			return
		}
		c.phase[b.Name] = b.Status.Phase
		c.changes++
		switch b.Status.Phase {
		case velerov1.BackupPhaseCompleted:
			c.completed[b.Name]++
		case velerov1.BackupPhaseFailed, velerov1.BackupPhasePartiallyFailed, velerov1.BackupPhaseFailedValidation:
			c.failed = append(c.failed, fmt.Sprintf("%s: %s %s", b.Name, b.Status.Phase, b.Status.FailureReason))
		}
	})
	return c
}

func (c *completions) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// claimed reports whether the process with that identity has ever claimed a backup.
func (c *completions) claimed(name, identity string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for claim := range c.claims {
		if strings.HasPrefix(claim, name+" "+identity+"/") {
			return true
		}
	}
	return false
}

// require fails the test unless each of the backups was Completed once and none failed. The backups are already
// Completed, but the watch may be behind.
func (c *completions) require(t *testing.T, names []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !slices.ContainsFunc(names, func(name string) bool { return c.completed[name] == 0 })
	}, 5*time.Minute, 10*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.failed)
	for _, name := range names {
		require.Equal(t, 1, c.completed[name], name)
	}
}

// TestAcceptFaults_FormerLeaderWritesNothing stops a leader with SIGSTOP for longer than its lease, at a different
// moment in each round, and resumes it while the next leader works or has finished. The former leader must not write
// any more: each backup is Completed exactly once, and the bucket holds the files of its last attempt. Both servers
// have the same POD_NAME.
func TestAcceptFaults_FormerLeaderWritesNothing(t *testing.T) {
	t.Parallel()
	for round := range 8 {
		provider := []string{"cleat.dev/s3", "cleat.dev/file"}[round/2%2]
		t.Run(fmt.Sprintf("%d on %s", round, provider), func(t *testing.T) {
			t.Parallel()
			s := site.New(t, provider)
			s.Several = true
			notes := s.WatchItems("150ms")
			completions := watchCompletions(s)
			serve := func() *site.Server {
				return s.Serve(append(notes.Args, "--concurrent-backups", "2", "--leader-elect-lease-duration", "20s")...)
			}
			zombie := serve()
			zombie.AwaitLog("this server leads")
			s.Available()
			next := serve()
			next.AwaitLog("another server leads, this one stands by")

			shops := []string{s.Workload(5), s.Workload(5)}
			var names []string
			for i := range 4 {
				names = append(names, fmt.Sprintf("b%d", i))
				s.BeginBackupOf(names[i], shops[i%2])
			}
			moment := 1 + 5*round/2 // changes of phases; each backup has five
			require.Eventually(t, func() bool { return completions.count() >= moment }, 5*time.Minute, 10*time.Millisecond)
			require.NoError(t, zombie.Cmd.Process.Signal(syscall.SIGSTOP))
			before := notes.Runs()
			next.AwaitLog("this server leads")
			if round%2 == 0 {
				s.AwaitCompleted(names)
			}
			require.NoError(t, zombie.Cmd.Process.Signal(syscall.SIGCONT))
			require.Error(t, zombie.Wait())
			require.Contains(t, zombie.Log.String(), "this server does not lead any more")
			s.AwaitCompleted(names)
			completions.require(t, names)

			// The plugin of the former leader is identified by its process, the only one that had recorded anything.
			// It received only calls for the runs that its server had claimed.
			identity := regexp.MustCompile(`this server leads: .*identity=(\S+)`).FindStringSubmatch(zombie.Log.String())
			require.NotNil(t, identity)
			old := map[string]bool{}
			for run := range before {
				old[strings.Fields(run)[0]] = true
			}
			for run := range notes.Runs() {
				if pid, name, _ := strings.Cut(run, " "); old[pid] {
					require.True(t, completions.claimed(name, identity[1]), "the former leader has not claimed %s", name)
				}
			}
			for _, name := range names {
				var b velerov1.Backup
				require.NoError(t, s.Client.Get(t.Context(), s.Key(name), &b))
				s.RequireWhole(&b)
			}
		})
	}
}

// TestAcceptFaults_StoppedWhileItStarts stops a server before its first answer. It ends as if it had worked.
func TestAcceptFaults_StoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	hit := g.Arm(1, site.Before, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/cleat-signing-key") })
	v := s.Serve()
	s.AwaitHit(hit)
	require.NoError(t, v.Stop())
	g.Disarm()
}

// wireToAPIServer starts a proxy in front of the API server and returns it with a kubeconfig for it.
func wireToAPIServer(t *testing.T, kubeconfig string) (w *site.Wire, proxied string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	for _, cluster := range config.Clusters {
		w, cluster.Server = site.WireTo(t, cluster.Server)
	}
	proxied = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, proxied))
	return w, proxied
}

// TestAcceptFaults_APIServerAway makes the API server unavailable for two servers for much longer than the lease,
// while backups and a restore are in progress. No server exits, the leader stays the leader, and nothing fails or is
// attempted again.
func TestAcceptFaults_APIServerAway(t *testing.T) {
	t.Parallel()
	const lease, away = 20 * time.Second, 45 * time.Second
	for how, cut := range map[string]struct{ begin, end func(*testing.T, *site.Wire) }{
		"refuses connections": {
			func(_ *testing.T, w *site.Wire) { w.Refuse() },
			func(t *testing.T, w *site.Wire) { t.Helper(); require.NoError(t, w.Connect()) },
		},
		"is silent": {func(_ *testing.T, w *site.Wire) { w.Hush() }, func(_ *testing.T, w *site.Wire) { w.Speak() }},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/s3")
			s.Several = true
			notes := s.WatchItems("200ms")
			completions := watchCompletions(s)
			var wire *site.Wire
			wire, s.ServerKubeconfig = wireToAPIServer(t, s.Kubeconfig)
			serve := func() *site.Server {
				return s.Serve(append(notes.Args, "--concurrent-backups", "2", "--restore-workers", "1",
					"--leader-elect-lease-duration", lease.String())...)
			}
			leader := serve()
			leader.AwaitLog("this server leads")
			s.Available()
			standby := serve()
			standby.AwaitLog("another server leads, this one stands by")
			s.Shop = s.Workload(10)
			s.WholeBackup("")

			// One run ends while the API server is unavailable, the others afterwards.
			shops := []string{s.Workload(15), s.Workload(80), s.Workload(2)}
			names := []string{"short", "long", "waits"}
			for i, name := range names {
				s.BeginBackupOf(name, shops[i])
			}
			s.BeginRestore("back")
			s.Eventually("the runs are in the middle", func(context.Context) (bool, error) {
				seen := map[string]bool{}
				for run := range notes.Runs() {
					seen[strings.Fields(run)[1]] = true
				}
				return seen["short"] && seen["long"] && seen["back"], nil
			})
			cut.begin(t, wire)
			select {
			case err := <-leader.Done:
				require.NoError(t, err, "the leader has exited")
			case err := <-standby.Done:
				require.NoError(t, err, "the standby has exited")
			case <-time.After(away):
			}
			cut.end(t, wire)

			s.AwaitCompleted(names)
			completions.require(t, names)
			for _, name := range names {
				var b velerov1.Backup
				require.NoError(t, s.Client.Get(t.Context(), s.Key(name), &b))
				require.Equal(t, "1", b.Annotations["cleat.dev/attempt"], name)
				s.RequireWhole(&b)
			}
			s.CheckRestore("back")
			require.Contains(t, leader.Log.String(), "the lease is renewed again")
			require.False(t, site.Leads(standby), "nobody could take over")
			for _, v := range []*site.Server{leader, standby} {
				require.NoError(t, v.Stop(), "it still works")
			}
		})
	}
}

// TestAcceptFaults_KilledRunsGoOn kills or stops servers in the middle of backups and restores.
func TestAcceptFaults_KilledRunsGoOn(t *testing.T) {
	t.Parallel()
	kill := func(v *site.Server) { v.Kill() }
	stop := func(v *site.Server) { require.NoError(v.Site.T, v.Stop()) }
	ends := []func(*site.Server){kill, stop}
	for name, end := range map[string]func(*site.Server){"a backup of a killed server": kill,
		"a backup of a stopped server": stop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := site.NewGated(t)
			s.Shop = s.Workload(3)
			server := s.Serve()
			s.Available()
			s.InTheMiddle(g, "long")
			s.BeginBackupOf("waits", s.Shop)
			s.AwaitPosition("waits", 1)
			end(server)
			g.Disarm()
			s.Serve()
			b := s.AwaitBackup("long", velerov1.BackupPhaseCompleted)
			s.RequireWhole(b)
			require.Equal(t, "2", b.Annotations["cleat.dev/attempt"])
			require.Contains(t, s.Must("backup", "describe", "long"),
				"2; the server was stopped or killed in the attempt before")
			awaitEvent(s, "long", "the server of the last one was stopped or killed; the backup starts anew")
			waits := s.AwaitBackup("waits", velerov1.BackupPhaseCompleted)
			require.False(t, waits.Status.StartTimestamp.Time.Before(b.Status.StartTimestamp.Time), "the backup kept its slot")
		})
	}
	t.Run("a restore goes on", func(t *testing.T) {
		t.Parallel()
		s, g := site.NewGated(t)
		s.Shop = s.Workload(8)
		server := s.Serve("--restore-workers", "1")
		s.Available()
		s.WholeBackup("")
		for n, end := range ends {
			id := fmt.Sprintf("r%d", n)
			s.BeginHeldRestore(g, id)
			end(server)
			g.Disarm()
			server = s.Serve("--restore-workers", "1")
			s.CheckRestore(id)
			var r velerov1.Restore
			require.NoError(t, s.Client.Get(t.Context(), s.Key(id), &r))
			require.Equal(t, "2", r.Annotations["cleat.dev/attempt"])
			require.Zero(t, r.Status.Warnings+r.Status.Errors, "what the first attempt has restored is no reason to warn")
			require.Contains(t, s.Must("restore", "describe", id), "2; the server was stopped or killed in the attempt before")
			awaitEvent(s, id, "the server of the last one was stopped or killed; the restore goes on")
			for _, name := range []string{"item-a", "item-h"} {
				var item metav1.PartialObjectMetadata
				item.SetGroupVersionKind(configMaps())
				require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Shop + "-" + id, Name: name}, &item))
				require.Equal(t, id, item.Labels["velero.io/restore-name"])
			}
		}
	})
	for attempts, reason := range map[int]string{
		1: `found a %s with status "InProgress" during the server starting, mark it as "Failed"`,
		2: "gave up after 2 attempts: in each of them the server was stopped or killed, or lost its lease, while the %s " +
			"was in progress",
	} {
		t.Run(fmt.Sprintf("after %d attempts", attempts), func(t *testing.T) {
			t.Parallel()
			s, g := site.NewGated(t)
			s.Shop = s.Workload(3)
			limits := []string{"--backup-attempts", fmt.Sprint(attempts), "--restore-attempts", fmt.Sprint(attempts)}
			server := s.Serve(limits...)
			s.Available()
			s.WholeBackup("")
			hit := g.Arm(1, site.Before, site.Uploads("long"))
			s.BeginBackup("long")
			for range attempts {
				s.AwaitHit(hit)
				server.Kill()
				s.LastedLong("long")
				g.Disarm()
				hit = g.Arm(1, site.Before, site.Uploads("long"))
				server = s.Serve(limits...)
			}
			b := s.AwaitBackup("long", velerov1.BackupPhaseFailed)
			require.Equal(t, fmt.Sprintf(reason, "backup"), b.Status.FailureReason)
			require.NotNil(t, b.Status.CompletionTimestamp)
			s.Eventually("nothing is left", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, s.Key("long"), b)
				return b.Annotations["cleat.dev/partial-data"] == "", err
			})
			require.Subset(t, []string{"long-logs.gz"}, s.Files("backups/long"))

			hit = g.Arm(1, site.Before, site.CreatesConfigMaps)
			s.BeginRestore("back")
			for range attempts {
				s.AwaitHit(hit)
				server.Kill()
				s.LastedLong("back")
				g.Disarm()
				hit = g.Arm(1, site.Before, site.CreatesConfigMaps)
				server = s.Serve(limits...)
			}
			s.Eventually("the restore has failed", func(ctx context.Context) (bool, error) {
				var r velerov1.Restore
				err := s.Client.Get(ctx, s.Key("back"), &r)
				return r.Status.Phase == velerov1.RestorePhaseFailed && r.Status.FailureReason == fmt.Sprintf(reason, "restore"),
					err
			})
		})
	}
}

func configMaps() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("ConfigMap") }

// awaitEvent waits for an event about an object.
func awaitEvent(s *site.Site, name, note string) {
	s.T.Helper()
	s.Eventually("there is an event about "+name, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && strings.Contains(e.Note, note)
		}), err
	})
}
