package operations_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_BucketAway makes the bucket unavailable while operations run.
func TestAcceptOperations_BucketAway(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	server := s.Serve(append(w.Args, "--store-validation-frequency", "1s")...)
	s.Available()
	shop := s.BeginWork("b", "keyed", 0, "length", "held", "after", "none")
	s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	s.Eventually("the operation is followed", func(context.Context) (bool, error) {
		polled, err := filepath.Glob(filepath.Join(w.Dir, "polled", "*"))
		return len(polled) == 1, err
	})
	away := s.BucketDir + "-away"
	require.NoError(t, os.Rename(s.BucketDir, away))
	s.Eventually("the location is away", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.Client.Get(ctx, s.Key("default"), &location)
		return location.Status.Phase == velerov1.BackupStorageLocationPhaseUnavailable, err
	})
	w.Finish()
	w.AwaitNote("ended backup/" + shop + "/work")
	server.Kill() // the next server has no record of it, and cannot read the files
	s.Serve(append(w.Args, "--store-validation-frequency", "1s")...)
	time.Sleep(2 * time.Second)
	s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	require.NoError(t, os.Rename(away, s.BucketDir))
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
	w.RequireOnce("backup", shop, "work")
	s.RequireWhole(b)
	s.AwaitNoJournals()
	require.DirExists(t, filepath.Join(s.BucketDir, "backups"))
}

// TestAcceptOperations_BucketAwayAtWrites makes the bucket unavailable during the writes that operations cause: their
// record after the run, the record of their ends, and the rewriting of the archive.
func TestAcceptOperations_BucketAwayAtWrites(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file string
		phase      velerov1.BackupPhase // during the write
	}{
		{"the first record", "b-itemoperations.json.gz", velerov1.BackupPhaseInProgress},
		{"the record of the end", "b-itemoperations.json.gz", velerov1.BackupPhaseWaitingForPluginOperations},
		{"the archive", "b.tar.gz", velerov1.BackupPhaseFinalizing},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, ", killed ", killed), func(t *testing.T) {
				t.Parallel()
				s := site.New(t, "cleat.dev/s3")
				gate := &site.Gate{}
				_, s3 := gate.Behind(t, s.Cluster)
				wire, s3 := site.WireTo(t, s3)
				s.ChangeLocation(func(location *velerov1.BackupStorageLocation) {
					location.Spec.Config["s3Url"] = s3
					location.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Hour} // the server does not detect it before
				})
				w := s.Work()
				server := s.Serve(w.Args...)
				s.Available()
				shop := s.Workload(1)
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "changed"},
					StringData: map[string]string{"value": "before"}}
				require.NoError(t, s.Client.Create(t.Context(), secret))
				s.Item(shop, "work", "keyed", "length", "held", "after", "changed")
				arm := func() <-chan string {
					return gate.Arm(1, site.Before, func(r *http.Request) bool {
						return (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.HasSuffix(r.URL.Path, "/"+test.file)
					})
				}
				var hit <-chan string
				if test.phase == velerov1.BackupPhaseInProgress {
					hit = arm()
				}
				s.BeginBackupOf("b", shop)
				if hit == nil {
					s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
					hit = arm()
				}
				secret.StringData = map[string]string{"value": "after"}
				require.NoError(t, s.Client.Update(t.Context(), secret))
				w.Finish()
				s.AwaitHit(hit)
				s.AwaitBackup("b", test.phase)
				wire.Refuse()
				gate.Disarm()
				if killed {
					server.Kill()
					s.Serve(w.Args...)
				}
				time.Sleep(3 * time.Second) // for failed attempts
				require.NoError(t, wire.Connect())
				b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
				require.Equal(t, [3]int{1, 1, 0}, [3]int{b.Status.BackupItemOperationsAttempted,
					b.Status.BackupItemOperationsCompleted, b.Status.BackupItemOperationsFailed})
				require.Contains(t, string(s.Archived("b", "resources/secrets/namespaces/"+shop+"/changed.json")), "YWZ0ZXI=",
					"after")
				w.RequireOnce("backup", shop, "work")
				s.RequireWhole(b)
				s.AwaitNoJournals()
			})
		}
	}
}

// TestAcceptOperations_TwoServers suspends the leader while operations are in progress, lets the next server finish,
// and resumes the former one.
func TestAcceptOperations_TwoServers(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Several = true
	w := s.Work()
	args := slices.Concat(w.Args, []string{"--leader-elect-lease-duration", "20s"})
	zombie := s.Serve(args...)
	zombie.AwaitLog("this server leads")
	s.Available()
	next := s.Serve(args...)
	next.AwaitLog("another server leads, this one stands by")
	shop := s.Workload(1)
	for _, item := range []string{"a", "b", "c"} {
		s.Item(shop, item, "keyed", "length", "held")
	}
	s.BeginBackupOf("b", shop)
	s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	require.NoError(t, zombie.Cmd.Process.Signal(syscall.SIGSTOP))
	next.AwaitLog("this server leads")
	w.Finish()
	require.NoError(t, zombie.Cmd.Process.Signal(syscall.SIGCONT))
	require.Error(t, zombie.Wait())
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, [2]int{3, 3}, [2]int{b.Status.BackupItemOperationsAttempted, b.Status.BackupItemOperationsCompleted})
	w.RequireOnce("backup", shop, "a", "b", "c")
	s.RequireWhole(b)
	s.AwaitNoJournals()
}
