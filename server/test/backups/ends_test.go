package backups_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

func TestStoppedServerMarksRunAsFailedInItsLastAttempt(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	server := s.Serve("--backup-attempts", "1")
	s.Available()
	s.InTheMiddle(g, "long")
	require.NoError(t, server.Cmd.Process.Signal(os.Interrupt))
	require.NoError(t, server.Wait(), "a clean end")
	b := s.AwaitBackup("long", velerov1.BackupPhaseFailed)
	require.Equal(t, "the server was stopped while it was in progress", b.Status.FailureReason)
	require.NotContains(t, s.Files("backups/long"), "long.tar.gz")
}

func TestDeletedBackupStopsAndLeavesNoFiles(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	server := s.Serve()
	s.Available()
	s.InTheMiddle(g, "gone")
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "gone"}}))
	s.Eventually("the server has noticed", func(context.Context) (bool, error) {
		return strings.Contains(server.Log.String(), "the backup was deleted while it was in progress"), nil
	})
	g.Disarm()
	require.Empty(t, s.Files("backups/gone"))

	// The slot is free again.
	s.BeginBackup("next")
	s.AwaitBackup("next", velerov1.BackupPhaseCompleted)
}

// A backup that is deleted while it is Finalizing has stored all its files, and leaves none, like a backup that is
// deleted during its run.
func TestBackupDeletedWhileFinalizingLeavesNoFiles(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	s.Serve()
	s.Available()
	hit := g.Arm(2, site.Before, func(r *http.Request) bool { // the first is that of the run
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/gone/velero-backup.json")
	})
	s.BeginBackup("gone")
	s.AwaitHit(hit)
	require.NotEmpty(t, s.Files("backups/gone"))
	require.NoError(t, s.Client.Delete(t.Context(), s.AwaitBackup("gone", velerov1.BackupPhaseFinalizing)))
	g.Disarm()
	s.Eventually("the files are gone", func(context.Context) (bool, error) {
		return len(s.Files("backups/gone")) == 0, nil
	})

	// The name is free, and the deletion of a finished backup keeps the files.
	s.BeginBackup("gone")
	again := s.AwaitBackup("gone", velerov1.BackupPhaseCompleted)
	s.RequireWhole(again)
	require.NoError(t, s.Client.Delete(t.Context(), again.DeepCopy()))
	s.BeginBackup("next")
	s.AwaitBackup("next", velerov1.BackupPhaseCompleted)
	s.RequireWhole(again)
}

func TestDeletedRestoreStopsAndLeavesNoFiles(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	s.Serve()
	s.Available()
	s.WholeBackup("")
	hit := g.Arm(1, site.Before, func(r *http.Request) bool {
		return r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/namespaces/"+s.Shop+"-copy/configmaps")
	})
	s.BeginRestore("gone")
	<-hit
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "gone"}}))
	s.Eventually("the restore is gone", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("gone"), &velerov1.Restore{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.Empty(t, s.Files("restores/gone"))
}

func TestBackupKeepsOtherDataOfItsName(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(3)
	s.Serve()
	s.Available()
	s.WholeBackup("")
	first := s.AwaitBackup("whole", velerov1.BackupPhaseCompleted)
	// The custom resource is deleted, as in a new cluster; the data stays.
	require.NoError(t, s.Client.Delete(t.Context(), first.DeepCopy()))

	out, errs, err := s.Run("backup", "create", "whole", "--include-namespaces", s.Shop, "--wait")
	require.Error(t, err, "the exit code reports the failure")
	require.Contains(t, out+errs, "completed with status: Failed: backup already exists in object storage")
	require.Contains(t, s.Must("backup", "delete", "whole", "--confirm", "--wait"), `Backup "whole" deleted.`)
	s.RequireWhole(first)
}

func TestCommandsReportWrongSpecs(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no such location": {[]string{"backup", "create", "a", "--storage-location", "elsewhere", "--wait"},
			`--storage-location: there is no backup storage location "elsewhere"`},
		"both filters": {[]string{"backup", "create", "b", "--include-resources", "pods",
			"--include-namespace-scoped-resources", "pods", "--wait"}, "use one family of filters"},
		"bad namespace": {[]string{"backup", "create", "c", "--include-namespaces", "a**b", "--wait"},
			`must not contain "**"`},
		"no such backup": {[]string{"restore", "create", "--from-backup", "none", "--wait"},
			`backups.velero.io "none" not found`},
		"no source":         {[]string{"restore", "create", "r"}, "--from-backup or --from-schedule"},
		"deletion of none":  {[]string{"backup", "delete", "none", "--confirm"}, `"none" not found`},
		"deletion of what?": {[]string{"backup", "delete", "--confirm"}, "say which backups"},
		"logs too early":    {[]string{"backup", "logs", "none"}, `"none" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, err := s.Run(tt.args...)
			require.Error(t, err)
			require.Contains(t, out+errs, tt.want)
		})
	}
}

func TestServerReportsMissingPrerequisites(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	lost := *s
	lost.Namespace = "no-such-namespace"
	out, errs, err := lost.Run("server", "--metrics-address", "0")
	require.Error(t, err)
	require.Contains(t, out+errs, "namespace no-such-namespace does not exist; create it")
	_, errs, err = s.Run("server", "--log-format", "xml")
	require.Error(t, err)
	require.Contains(t, errs, `--log-format "xml": want one of text, json`)
	_, errs, err = s.Run("server", "--no-such-flag")
	require.Error(t, err)
	require.Contains(t, errs, "no-such-flag")
	lost.Kubeconfig = filepath.Join(t.TempDir(), "none")
	_, errs, err = lost.Run("backup", "get")
	require.Error(t, err)
	require.Contains(t, errs, "name a file with --kubeconfig or $KUBECONFIG")
}

func TestIsolatedBuiltIns(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(3)
	s.Serve("--isolate-built-ins")
	s.Available()
	s.BeginBackup("isolated")
	s.RequireWhole(s.AwaitBackup("isolated", velerov1.BackupPhaseCompleted))
}
