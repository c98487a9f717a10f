package main_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptOperations_KillEverywhere kills the server with SIGKILL between any two of its writes, to the API server
// and to S3, and at each call of the plugin, during a backup and a restore with operations. The next server must go on
// with the operations: each is begun once and ends once, and nothing stays open.
func TestAcceptOperations_KillEverywhere(t *testing.T) {
	t.Parallel()
	const server, plugin = "server", "plugin"
	least := map[string]int{server: 10, plugin: 6}
	for _, course := range []string{"backup", "restore"} {
		for _, where := range []string{server, plugin} {
			t.Run(course+" "+where, func(t *testing.T) {
				t.Parallel()
				s, g := newGatedSite(t)
				s.resources = few()
				w := s.work()
				running := s.serve(w.args...)
				s.available()
				items := []string{"one", "two"}
				shop := s.workload(1)
				for _, item := range items {
					s.item(shop, item, "keyed", "length", "300ms", "after", "later")
				}
				require.NoError(t, s.client.Create(t.Context(),
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "later"}}))
				if course == "restore" {
					s.beginBackupOf("source", shop)
					s.awaitBackup("source", velerov1.BackupPhaseCompleted)
				}
				places := everyWrite(func(n int, when moment) bool {
					round := fmt.Sprintf("%s-%d", when, n)
					var hit <-chan string
					held := func() string { return "" }
					if where == plugin {
						held = w.hold(round, n)
					} else {
						hit = g.arm(n, when, writesOf(s.namespace))
					}
					if course == "backup" {
						s.beginBackupOf(round, shop)
					} else {
						s.restoreTo(round, "source", shop, fmt.Sprintf("%s-%s", shop, round))
					}
					at := ""
					s.eventually("the server is held or the course is done", func(ctx context.Context) (bool, error) {
						done, err := s.done(ctx, round, course)
						if at = held(); at != "" {
							return true, nil
						}
						select {
						case at = <-hit:
							return true, nil
						default:
							return done, err
						}
					})
					if at == "" {
						g.disarm()
						w.forget()
						return false
					}
					running.kill()
					g.disarm()
					if where == plugin {
						w.release()
					}
					t.Logf("killed at %s %d: %s", where, n, at)
					running = s.serve(w.args...)
					if course == "backup" {
						b := s.awaitBackup(round, velerov1.BackupPhaseCompleted)
						require.Equal(t, [2]int{2, 2}, [2]int{b.Status.BackupItemOperationsAttempted,
							b.Status.BackupItemOperationsCompleted})
						s.requireWhole(b)
					} else {
						r := s.awaitRestore(round, velerov1.RestorePhaseCompleted)
						require.Equal(t, [2]int{2, 2}, [2]int{r.Status.RestoreItemOperationsAttempted,
							r.Status.RestoreItemOperationsCompleted})
					}
					s.awaitNoJournals()
					w.requireOnce(course, shop, items...)
					w.forget()
					return true
				})
				require.GreaterOrEqual(t, places, least[where], "fewer places than expected")
			})
		}
	}
}

// writesOf returns a match for the writes to a site's own resources and to S3.
func writesOf(namespace string) func(*http.Request) bool {
	own := writesTo("backups", "restores")
	return func(r *http.Request) bool {
		journal := r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/configmaps")
		return own(r) || journal
	}
}
