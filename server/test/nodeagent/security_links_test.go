package nodeagent_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

const (
	racedFiles   = 200
	secretOfNode = "secret-of-the-node"
)

// TestAcceptSecurity_Links has a pod that replaces directories of its volume with links, without a pause, while the
// volume is backed up and restored by restic. The links lead to files of the node, and to /proc of the process that
// follows them. No snapshot contains any of them, and nothing is written there. CLEAT_RACE_FOR sets the duration.
func TestAcceptSecurity_Links(t *testing.T) {
	t.Parallel()
	duration := 8 * time.Second
	if text := os.Getenv("CLEAT_RACE_FOR"); text != "" {
		var err error
		duration, err = time.ParseDuration(text)
		require.NoError(t, err, "CLEAT_RACE_FOR")
	}
	s := newSite(t, 1)
	node := s.nodes[0]
	require.NoError(t, os.Remove(filepath.Join(s.plugins, "mover")))
	programs.Copy(t, "plugins/restic/cmd/cleat-restic", filepath.Join(s.plugins, "cleat-restic"))
	restic := programs.Restic(t)
	s.environment = []string{"PATH=" + filepath.Dir(restic) + ":" + os.Getenv("PATH"), "OF_THE_AGENT=" + secretOfNode}
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "default"}, &location))
	repository := filepath.Join(location.Spec.Config["path"], "bucket", "restic", s.namespace)

	secrets, plugins := t.TempDir(), t.TempDir() // represent directories of the agent
	data := s.data(node)
	fill(t, filepath.Join(data, "dir"), "of the pod")
	fill(t, secrets, secretOfNode)
	require.NoError(t, os.Mkdir(filepath.Join(data, "process"), 0o755))
	for _, name := range []string{"environ", "cmdline"} {
		require.NoError(t, os.WriteFile(filepath.Join(data, "process", name), []byte("of the pod"), 0o600))
	}
	s.agents()
	s.create(s.backup("calm", node))
	s.awaitPhase("PodVolumeBackup/calm", velerov1.LoadPhaseCompleted)
	calm := &velerov1.PodVolumeBackup{}
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "calm"}, calm))

	target := filepath.Join(s.root, node, string(s.pods[node].UID), "volumes/kubernetes.io~csi/pv-1/mount")
	require.NoError(t, os.Mkdir(filepath.Join(target, "dir"), 0o755))
	exchanges, stop := swap(t, map[string]string{filepath.Join(data, "dir"): secrets,
		filepath.Join(data, "process"): "/proc/self", filepath.Join(target, "dir"): plugins})
	rounds := 0
	for began := time.Now(); rounds == 0 || time.Since(began) < duration; rounds++ {
		backup, restore := fmt.Sprint("b", rounds), fmt.Sprint("r", rounds)
		s.create(s.backup(backup, node), s.restore(restore, node, calm.Status.SnapshotID))
		s.await("a round ends", func(last map[string]state) bool {
			return last["PodVolumeBackup/"+backup].phase.Terminal() && last["PodVolumeRestore/"+restore].phase.Terminal()
		})
		entries, err := os.ReadDir(plugins)
		require.NoError(t, err)
		require.Empty(t, entries, "round %d: a restore has written outside of its volume", rounds)
	}
	stop()
	t.Logf("%d rounds, %d exchanges", rounds, exchanges.Load())

	s.create(s.backup("after", node), s.restore("after", node, calm.Status.SnapshotID))
	s.awaitPhase("PodVolumeBackup/after", velerov1.LoadPhaseCompleted)
	s.awaitPhase("PodVolumeRestore/after", velerov1.LoadPhaseCompleted)
	content, err := os.ReadFile(filepath.Join(target, "dir", "f0"))
	require.NoError(t, err)
	require.Equal(t, "of the pod", string(content))

	var secret corev1.Secret
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "velero-repo-credentials"},
		&secret))
	all := t.TempDir()
	run := func(args ...string) {
		cmd := exec.Command(restic, append(args, "--repo="+repository, "--no-cache", "--no-lock")...)
		cmd.Env = append(os.Environ(), "RESTIC_PASSWORD="+string(secret.Data["repository-password"]))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	var loads velerov1.PodVolumeBackupList
	require.NoError(t, s.client.List(t.Context(), &loads, client.InNamespace(s.namespace)))
	for _, load := range loads.Items {
		if load.Status.SnapshotID != "" {
			run("restore", load.Status.SnapshotID, "--target="+filepath.Join(all, load.Name))
		}
	}
	require.NoError(t, filepath.WalkDir(all, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		require.False(t, bytes.Contains(content, []byte(secretOfNode)), "%s has a file of the node", path)
		return err
	}))
}

// fill writes files into a directory, which it creates.
func fill(t *testing.T, dir, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i := range racedFiles {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(content), 0o600))
	}
}

// swap exchanges each directory with a link to another one, repeatedly, until stop is called. Then all directories are
// restored.
func swap(t *testing.T, links map[string]string) (exchanges *atomic.Int64, stop func()) {
	t.Helper()
	exchanges = &atomic.Int64{}
	for dir, target := range links {
		require.NoError(t, os.Symlink(target, dir+"-link"))
	}
	exchange := func(dir string) {
		_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, dir+"-link", unix.RENAME_EXCHANGE)
	}
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stopped.Load() {
			for dir := range links {
				exchange(dir)
				exchanges.Add(1)
			}
		}
		for dir := range links {
			if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
				exchange(dir)
			}
		}
	}()
	return exchanges, func() {
		stopped.Store(true)
		<-done
	}
}
