package nodeagent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// moverImage is the image of the data mover, with the contents of a release.
const moverImage = "cleat.invalid/cleat-kopia:v1"

// TestAcceptVolumes_DaemonSet runs the objects of "cleat install" with only the rights of --rbac least: server and
// agent are pods of a real kubelet, with the images, mounts, users, capabilities and service accounts of their
// manifests. The agent backs up files of all kinds and restores them. Jobs of the server maintain the repository, and
// the server removes what the agent has stored. The log of its pod is read while a backup runs.
func TestAcceptVolumes_DaemonSet(t *testing.T) {
	t.Parallel()
	m, in := newInstallation(t)
	credentials := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", in.AccessKey, in.SecretKey)
	require.NoError(t, os.WriteFile(credentials, []byte(text), 0o600))
	restored := m.shop + "-restored"
	require.NoError(t, m.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: restored}}))
	m.configureJobs()
	out, err := m.cleat(
		"install", "--image", cleatImage, "--use-node-agent", "--node-agent-plugins", moverImage, "--rbac", "least",
		"--plugins", moverImage, "--repo-maintenance-job-configmap", jobSettings,
		"--rbac-namespaces", m.shop+","+restored,
		"--provider", "cleat.dev/s3", "--bucket", in.bucket, "--secret-file", credentials,
		"--backup-location-config", "region="+in.Region+",s3ForcePathStyle=true,s3Url="+
			in.Endpoint, "--velero-pod-cpu-request", "0", "--velero-pod-cpu-limit", "0", "--log-level", "debug",
		"--use-console", "--wait")
	require.NoError(t, err, out)

	m.claim("data", corev1.PersistentVolumeFilesystem)
	app := m.startApp()
	before := m.list(app)
	require.Greater(t, len(before), 240)
	m.backup("b")
	var loads velerov1.PodVolumeBackupList
	require.NoError(t, m.client.List(t.Context(), &loads, client.InNamespace(m.namespace)))
	for _, load := range loads.Items {
		require.Equal(t, m.cluster.Node.Name, load.Spec.Node)
		require.True(t, strings.HasPrefix(load.Status.Path, "/host_pods/"+string(app.UID)+"/"), load.Status.Path)
	}
	m.requireRestored(before, m.restore("b", restored))
	m.retry("the pod of the console answers", func(ctx context.Context) error {
		var console appsv1.Deployment
		err := m.client.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "cleat-console"}, &console)
		if err == nil && console.Status.ReadyReplicas != 1 {
			err = fmt.Errorf("%d are ready", console.Status.ReadyReplicas)
		}
		return err
	})
	m.logsWhileItRuns()
	m.maintained(m.shop + "-default-kopia")
	out, err = m.cleat("backup", "delete", "b", "--confirm", "--wait")
	require.NoError(t, err, out)
	logs := m.logs()
	require.Regexp(t, "removed snapshots from a repository: .*mover=cleat.dev/kopia ", logs["velero"])
	require.Contains(t, logs["console"], "The console of namespace "+m.namespace+" listens at ")
	for _, of := range []string{"velero", "node-agent", "console"} {
		require.NotEmpty(t, logs[of], of)
		require.NotContains(t, logs[of], "forbidden", of)
	}
}

// newInstallation returns a machine without an installation, whose node has the images of one, and storage that its
// pods can reach.
func newInstallation(t *testing.T) (*machine, storage) {
	t.Helper()
	cluster := onNode.Get(t)
	in := newStorage(t, cluster)
	in.Endpoint = cluster.Node.S3Endpoint
	s := newEmptySite(t, &onNode)
	m := &machine{files: &files{site: s, bucket: filepath.Join(in.Dir, in.bucket)}, cluster: cluster, shop: "shop-" +
		s.namespace}
	t.Cleanup(func() {
		if t.Failed() {
			for of, log := range m.logs() {
				t.Logf("log of %s:\n%s", of, log[max(0, len(log)-6<<10):])
			}
		}
	})
	onNode.serveDisks(t, s.client)
	onNode.importImages(t)
	require.NoError(t, m.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.shop}}))

	program, err := programs.BuildModule("plugins/kopia/cmd/cleat-kopia")
	require.NoError(t, err)
	mover, err := productImage("cleat-kopia", programs.Build(t, "server/cmd/copy-plugins"), program)
	require.NoError(t, err)
	require.NoError(t, pods.ImportImage(t.Context(), cluster, moverImage, mover))
	return m, in
}

// logs returns the output of the containers in the namespace of the site, by the names of the containers.
func (m *machine) logs() map[string]string {
	all := map[string]string{}
	paths, _ := filepath.Glob(filepath.Join(m.cluster.Dir, "node", "pod-logs", m.namespace+"_*", "*", "*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		all[filepath.Base(filepath.Dir(path))] += string(text)
	}
	return all
}
