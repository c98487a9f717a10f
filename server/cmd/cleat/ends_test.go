package main_test

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
)

func TestStoppedServerMarksRunAsFailedInItsLastAttempt(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	server := s.serve("--backup-attempts", "1")
	s.available()
	s.inTheMiddle(g, "long")
	require.NoError(t, server.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, server.wait(), "a clean end")
	b := s.awaitBackup("long", velerov1.BackupPhaseFailed)
	require.Equal(t, "the server was stopped while it was in progress", b.Status.FailureReason)
	require.NotContains(t, s.files("backups/long"), "long.tar.gz")
}

func TestDeletedBackupStopsAndLeavesNoFiles(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	server := s.serve()
	s.available()
	s.inTheMiddle(g, "gone")
	require.NoError(t, s.client.Delete(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "gone"}}))
	s.eventually("the server has noticed", func(context.Context) (bool, error) {
		return strings.Contains(server.log.String(), "the backup was deleted while it was in progress"), nil
	})
	g.disarm()
	require.Empty(t, s.files("backups/gone"))

	// The slot is free again.
	s.beginBackup("next")
	s.awaitBackup("next", velerov1.BackupPhaseCompleted)
}

// A backup that is deleted while it is Finalizing has stored all its files, and leaves none, as during its run.
func TestBackupDeletedWhileFinalizingLeavesNoFiles(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	s.serve()
	s.available()
	hit := g.arm(2, before, func(r *http.Request) bool { // the first is that of the run
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/gone/velero-backup.json")
	})
	s.beginBackup("gone")
	s.awaitHit(hit)
	require.NotEmpty(t, s.files("backups/gone"))
	require.NoError(t, s.client.Delete(t.Context(), s.awaitBackup("gone", velerov1.BackupPhaseFinalizing)))
	g.disarm()
	s.eventually("the files are gone", func(context.Context) (bool, error) {
		return len(s.files("backups/gone")) == 0,
			nil
	})

	// The name is free, and the deletion of a finished backup keeps the files.
	s.beginBackup("gone")
	again := s.awaitBackup("gone", velerov1.BackupPhaseCompleted)
	s.requireWhole(again)
	require.NoError(t, s.client.Delete(t.Context(), again.DeepCopy()))
	s.beginBackup("next")
	s.awaitBackup("next", velerov1.BackupPhaseCompleted)
	s.requireWhole(again)
}

func TestDeletedRestoreStopsAndLeavesNoFiles(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	s.serve()
	s.available()
	s.wholeBackup("")
	hit := g.arm(1, before, func(r *http.Request) bool {
		return r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/namespaces/"+s.shop+"-copy/configmaps")
	})
	s.beginRestore("gone")
	<-hit
	require.NoError(t, s.client.Delete(t.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "gone"}}))
	s.eventually("the restore is gone", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key("gone"), &velerov1.Restore{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.Empty(t, s.files("restores/gone"))
}

func TestBackupKeepsOtherDataOfItsName(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.shop = s.workload(3)
	s.serve()
	s.available()
	s.wholeBackup("")
	first := s.awaitBackup("whole", velerov1.BackupPhaseCompleted)
	// The custom resource is deleted, as in a new cluster; the data stays.
	require.NoError(t, s.client.Delete(t.Context(), first.DeepCopy()))

	out, errs, err := s.run("backup", "create", "whole", "--include-namespaces", s.shop, "--wait")
	require.Error(t, err, "the exit code reports the failure")
	require.Contains(t, out+errs, "completed with status: Failed: backup already exists in object storage")
	require.Contains(t, s.must("backup", "delete", "whole", "--confirm", "--wait"), `Backup "whole" deleted.`)
	s.requireWhole(first)
}

func TestCommandsReportWrongSpecs(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.serve()
	s.available()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no such location": {[]string{"backup", "create", "a", "--storage-location", "elsewhere", "--wait"},
			`backup storage location "elsewhere", named in spec.storageLocation, does not exist`},
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
			out, errs, err := s.run(tt.args...)
			require.Error(t, err)
			require.Contains(t, out+errs, tt.want)
		})
	}
}

func TestServerReportsMissingPrerequisites(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	lost := *s
	lost.namespace = "no-such-namespace"
	out, errs, err := lost.run("server", "--metrics-address", "0")
	require.Error(t, err)
	require.Contains(t, out+errs, "namespace no-such-namespace does not exist; create it")
	_, errs, err = s.run("server", "--log-format", "xml")
	require.Error(t, err)
	require.Contains(t, errs, `--log-format "xml": want one of text, json`)
	_, errs, err = s.run("server", "--no-such-flag")
	require.Error(t, err)
	require.Contains(t, errs, "no-such-flag")
	lost.kubeconfig = filepath.Join(t.TempDir(), "none")
	_, errs, err = lost.run("backup", "get")
	require.Error(t, err)
	require.Contains(t, errs, "name a file with --kubeconfig or $KUBECONFIG")
}

func TestIsolatedBuiltIns(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.shop = s.workload(3)
	s.serve("--isolate-built-ins")
	s.available()
	s.beginBackup("isolated")
	s.requireWhole(s.awaitBackup("isolated", velerov1.BackupPhaseCompleted))
}
