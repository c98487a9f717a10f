package operations_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_KillEverywhere kills the server with SIGKILL between any two of its writes, to the API server
// and to S3, and at each call of the plugin, during a backup and a restore with operations. The next server must
// continue with the operations: each is begun once and ends once, and nothing stays open.
func TestAcceptOperations_KillEverywhere(t *testing.T) {
	t.Parallel()
	const server, plugin = "server", "plugin"
	least := map[string]int{server: 10, plugin: 6}
	for _, course := range []string{"backup", "restore"} {
		for _, where := range []string{server, plugin} {
			t.Run(course+" "+where, func(t *testing.T) {
				t.Parallel()
				s, g := site.NewGated(t)
				s.Resources = site.Few()
				w := s.Work()
				running := s.Serve(w.Args...)
				s.Available()
				items := []string{"one", "two"}
				shop := s.Workload(1)
				for _, item := range items {
					s.Item(shop, item, "keyed", "length", "300ms", "after", "later")
				}
				require.NoError(t, s.Client.Create(t.Context(),
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "later"}}))
				if course == "restore" {
					s.BeginBackupOf("source", shop)
					s.AwaitBackup("source", velerov1.BackupPhaseCompleted)
				}
				places := site.EveryWrite(func(n int, when site.Moment) bool {
					round := fmt.Sprintf("%s-%d", when, n)
					var hit <-chan string
					held := func() string { return "" }
					if where == plugin {
						held = w.Hold(round, n)
					} else {
						hit = g.Arm(n, when, writesOf(s.Namespace))
					}
					if course == "backup" {
						s.BeginBackupOf(round, shop)
					} else {
						s.RestoreTo(round, "source", shop, fmt.Sprintf("%s-%s", shop, round))
					}
					at := ""
					s.Eventually("the server is held or the course is done", func(ctx context.Context) (bool, error) {
						done, err := s.Done(ctx, round, course)
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
						g.Disarm()
						w.Forget()
						return false
					}
					running.Kill()
					g.Disarm()
					if where == plugin {
						w.Release()
					}
					t.Logf("killed at %s %d: %s", where, n, at)
					running = s.Serve(w.Args...)
					if course == "backup" {
						b := s.AwaitBackup(round, velerov1.BackupPhaseCompleted)
						require.Equal(t, [2]int{2, 2}, [2]int{b.Status.BackupItemOperationsAttempted,
							b.Status.BackupItemOperationsCompleted})
						s.RequireWhole(b)
					} else {
						r := s.AwaitRestore(round, velerov1.RestorePhaseCompleted)
						require.Equal(t, [2]int{2, 2}, [2]int{r.Status.RestoreItemOperationsAttempted,
							r.Status.RestoreItemOperationsCompleted})
					}
					s.AwaitNoJournals()
					w.RequireOnce(course, shop, items...)
					w.Forget()
					return true
				})
				require.GreaterOrEqual(t, places, least[where], "fewer places than expected")
			})
		}
	}
}

// writesOf returns a matcher of the writes to a site's own resources and to S3.
func writesOf(namespace string) func(*http.Request) bool {
	own := site.WritesTo("backups", "restores")
	return func(r *http.Request) bool {
		journal := r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/configmaps")
		return own(r) || journal
	}
}
