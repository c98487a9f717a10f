package manifests_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptManifest_Examples describes a backup with the example writers, which are a module of their own, and the
// built-in one.
func TestAcceptManifest_Examples(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	program, err := programs.BuildModule("examples/manifest-writers")
	require.NoError(t, err)
	plugins := t.TempDir()
	require.NoError(t, programs.CopyFile(program, filepath.Join(plugins, "manifest-writers")))
	s.Serve("--plugin-dir", plugins, "--config", site.ConfigFile(t, `backups:
  manifestWriters:
    - plugin: cleat.dev/manifest
    - {plugin: example.cleat.dev/parquet, failurePolicy: Fail}
    - {plugin: example.cleat.dev/images, failurePolicy: Fail}
`))
	s.Available()
	shop := s.Workload(1)
	require.NoError(t, s.Client.Create(t.Context(), &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: new(int32),
			Selector: map[string]string{"app": "web"},
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example.io/web:2"}}},
			},
		},
	}))
	s.BeginBackupOf("b", shop)
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Zero(t, b.Status.Warnings)

	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(s.BucketDir, "backups", "b", name))
		require.NoError(t, err)
		return content
	}
	table := read("b-items.parquet")
	require.True(t, bytes.HasPrefix(table, []byte("PAR1")) && bytes.HasSuffix(table, []byte("PAR1")))
	var line struct {
		Image  string
		UsedBy []string
	}
	require.NoError(t, json.Unmarshal(read("b-images.jsonl"), &line), "one image, in one line")
	require.Equal(t, "registry.example.io/web:2", line.Image)
	require.Equal(t, []string{"replicationcontrollers " + shop + "/web"}, line.UsedBy)
	described, header, err := manifest.Load(bytes.NewReader(read("b-manifest.json.gz")))
	require.NoError(t, err)
	require.Equal(t, "b", header.Backup.Name)
	require.Len(t, described.Set(), b.Status.Progress.ItemsBackedUp)
}
