package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptOperations_BucketAway takes the bucket away while operations run.
func TestAcceptOperations_BucketAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	w := s.work()
	server := s.serve(append(w.args, "--store-validation-frequency", "1s")...)
	s.available()
	shop := s.beginWork("b", "keyed", 0, "length", "held", "after", "none")
	s.awaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	s.eventually("the operation is followed", func(context.Context) (bool, error) {
		polled, err := filepath.Glob(filepath.Join(w.dir, "polled", "*"))
		return len(polled) == 1, err
	})
	away := s.bucketDir + "-away"
	require.NoError(t, os.Rename(s.bucketDir, away))
	s.eventually("the location is away", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.client.Get(ctx, s.key("default"), &location)
		return location.Status.Phase == velerov1.BackupStorageLocationPhaseUnavailable, err
	})
	w.finish()
	w.awaitNote("ended backup/" + shop + "/work")
	server.kill() // the next one knows nothing of it, and cannot read the files
	s.serve(append(w.args, "--store-validation-frequency", "1s")...)
	time.Sleep(2 * time.Second)
	s.awaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	require.NoError(t, os.Rename(away, s.bucketDir))
	b := s.awaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
	w.requireOnce("backup", shop, "work")
	s.requireWhole(b)
	s.awaitNoJournals()
	require.DirExists(t, filepath.Join(s.bucketDir, "backups"))
}

// TestAcceptOperations_BucketAwayAtWrites takes the bucket away in the middle of the writes that operations are the
// reason for: at their record after the run, at the record of their ends, and at the rewriting of the archive.
func TestAcceptOperations_BucketAwayAtWrites(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file string
		phase      velerov1.BackupPhase // in which the write is met
	}{
		{"the first record", "b-itemoperations.json.gz", velerov1.BackupPhaseInProgress},
		{"the record of the end", "b-itemoperations.json.gz", velerov1.BackupPhaseWaitingForPluginOperations},
		{"the archive", "b.tar.gz", velerov1.BackupPhaseFinalizing},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, ", killed ", killed), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, "cleat.dev/s3")
				gate := &gate{}
				_, s3 := gate.behind(t, s.cluster)
				wire, s3 := wireTo(t, s3)
				s.changeLocation(func(location *velerov1.BackupStorageLocation) {
					location.Spec.Config["s3Url"] = s3
					location.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Hour} // the server does not know of it before
				})
				w := s.work()
				server := s.serve(w.args...)
				s.available()
				shop := s.workload(1)
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "changed"},
					StringData: map[string]string{"value": "before"}}
				require.NoError(t, s.client.Create(t.Context(), secret))
				s.item(shop, "work", "keyed", "length", "held", "after", "changed")
				arm := func() <-chan string {
					return gate.arm(1, before, func(r *http.Request) bool {
						return (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.HasSuffix(r.URL.Path, "/"+test.file)
					})
				}
				var hit <-chan string
				if test.phase == velerov1.BackupPhaseInProgress {
					hit = arm()
				}
				s.beginBackupOf("b", shop)
				if hit == nil {
					s.awaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
					hit = arm()
				}
				secret.StringData = map[string]string{"value": "after"}
				require.NoError(t, s.client.Update(t.Context(), secret))
				w.finish()
				s.awaitHit(hit)
				s.awaitBackup("b", test.phase)
				wire.refuse()
				gate.disarm()
				if killed {
					server.kill()
					s.serve(w.args...)
				}
				time.Sleep(3 * time.Second) // for tries that fail
				require.NoError(t, wire.connect())
				b := s.awaitBackup("b", velerov1.BackupPhaseCompleted)
				require.Equal(t, [3]int{1, 1, 0}, [3]int{b.Status.BackupItemOperationsAttempted,
					b.Status.BackupItemOperationsCompleted, b.Status.BackupItemOperationsFailed})
				require.Contains(t, string(s.archived("b", "resources/secrets/namespaces/"+shop+"/changed.json")), "YWZ0ZXI=",
					"after")
				w.requireOnce("backup", shop, "work")
				s.requireWhole(b)
				s.awaitNoJournals()
			})
		}
	}
}

// TestAcceptOperations_TwoServers suspends the leader while operations go on, lets the next server finish, and
// continues the former one.
func TestAcceptOperations_TwoServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	s.several = true
	w := s.work()
	args := slices.Concat(w.args, []string{"--leader-elect-lease-duration", "10s"})
	zombie := s.serve(args...)
	zombie.awaitLog("this server leads")
	s.available()
	next := s.serve(args...)
	next.awaitLog("another server leads, this one stands by")
	shop := s.workload(1)
	for _, item := range []string{"a", "b", "c"} {
		s.item(shop, item, "keyed", "length", "held")
	}
	s.beginBackupOf("b", shop)
	s.awaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	require.NoError(t, zombie.cmd.Process.Signal(syscall.SIGSTOP))
	next.awaitLog("this server leads")
	w.finish()
	require.NoError(t, zombie.cmd.Process.Signal(syscall.SIGCONT))
	require.Error(t, zombie.wait())
	b := s.awaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, [2]int{3, 3}, [2]int{b.Status.BackupItemOperationsAttempted, b.Status.BackupItemOperationsCompleted})
	w.requireOnce("backup", shop, "a", "b", "c")
	s.requireWhole(b)
	s.awaitNoJournals()
}
