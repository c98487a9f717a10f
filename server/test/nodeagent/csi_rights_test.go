package nodeagent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// csiOfLeastPrivilege moves data there and back, removes it, and cleans up after cancelled loads, with a server and
// agents that have the rights of an installation with --rbac least.
func csiOfLeastPrivilege(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t, 1)
	v.useRestic()
	v.claim("files", corev1.PersistentVolumeFilesystem)
	source := v.volume(v.shop, "files").Name
	require.NoError(t, os.WriteFile(filepath.Join(v.dir(v.shop, "files"), "data"), []byte("before"), 0o600))
	cluster := shared.Get(t)
	out, err := exec.CommandContext(t.Context(), programs.Build(t, "server/cmd/cleat"), "install", "--kubeconfig",
		cluster.Kubeconfig, "--namespace", v.namespace,
		"--no-default-backup-location", "--no-secret", "--use-node-agent", "--features", "EnableCSI", "--rbac", "least",
		"--rbac-namespaces", v.shop, "--rbac-all-volumes").CombinedOutput()
	require.NoError(t, err, string(out))
	logs := map[string]*programs.Output{
		"agent": v.agents("--kubeconfig", cluster.AccountKubeconfig(t, v.namespace, "node-agent"), "--volume-namespaces",
			v.shop)[0].log,
	}
	serve := func(name string) *agent {
		server := v.serve("--kubeconfig", cluster.AccountKubeconfig(t, v.namespace, "velero"))
		logs[name] = server.log
		return server
	}
	server := serve("server")

	b := v.moving("b")
	require.NoError(t, v.client.Create(t.Context(), b))
	text := v.ended(b, func() string { return string(b.Status.Phase) }, "backups/b/b-results.gz")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, text)
	v.leavesNothing(v.shop, "files")
	claim := new(corev1.PersistentVolumeClaim)
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKey{Namespace: v.shop, Name: "files"}, claim))
	require.NoError(t, v.client.Delete(t.Context(), claim))
	v.eventually("the claim is gone", func() (bool, error) {
		err := v.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
		return err != nil, client.IgnoreNotFound(err)
	})
	r := &velerov1.Restore{Spec: velerov1.RestoreSpec{BackupName: "b"}}
	r.Name = "r2"
	v.create(r)
	text = v.ended(r, func() string { return string(r.Status.Phase) }, "restores/r2/restore-r2-results.gz")
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.NotEqual(t, source, v.volume(v.shop, "files").Name)
	data, err := os.ReadFile(filepath.Join(v.dir(v.shop, "files"), "data"))
	require.NoError(t, err)
	require.Equal(t, "before", string(data))
	v.hidesKey("Backup", b)
	v.hidesKey("Restore", r)
	v.leavesNothing(v.shop, "files")

	server.kill() // it would carry out the Backup of the loads that are made by hand
	v.cancelExposed()
	for _, run := range v.runs {
		require.NoError(t, v.client.Delete(t.Context(), run))
	}
	v.leavesNothing(v.shop, "files")
	require.Len(t, v.stored(), 1)
	serve("next server")
	v.requestDeletion("b")
	v.deleted("b")
	require.Empty(t, v.stored())
	for name, log := range logs {
		require.NotContains(t, log.String(), velerov1.LoadKeyAnnotation, name)
		for line := range strings.Lines(log.String()) {
			assert.NotContains(t, line, "forbidden", name)
		}
	}
}

// cancelExposed cancels a DataUpload and a DataDownload whose volumes are exposed on no node. The volume for the
// restore is retained by its class.
func (v *volumeSite) cancelExposed() {
	v.t.Helper()
	policy := corev1.PersistentVolumeReclaimRetain
	upload, download := v.uploadOf(unscheduled+"u", "files"), v.downloadOf(unscheduled+"d", "any")
	upload.Spec.DataMover, download.Spec.DataMover = velerov1.ResticDataMover, velerov1.ResticDataMover
	v.take(upload.Name, "files", "chosen")
	v.target(download.Name, v.class("retained", func(c *storagev1.StorageClass) { c.ReclaimPolicy = &policy }))
	v.create(upload, download)
	for _, load := range []client.Object{upload, download} {
		v.volume(v.namespace, load.GetName())
		v.change(load, func() { cancelLoad(load) })
	}
	v.awaitPhase("DataUpload/"+upload.Name, velerov1.LoadPhaseCanceled)
	v.awaitPhase("DataDownload/"+download.Name, velerov1.LoadPhaseCanceled)
}
