package plugins_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
)

// hosted is a server with the plugin "hosted", which keeps the state of a run in its process.
type hosted struct {
	*site.Site
	dir    string   // with a file for each snapshot, restore and removal, which has the process
	planes []string // namespaces, each a control plane
}

// TestAcceptPlugins_StateOfARun runs a plugin as vendors write them for Velero, which keeps what it has found and taken
// in its process for the rest of the run, in three runs one after the other and at once.
func TestAcceptPlugins_StateOfARun(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	h := &hosted{Site: s, dir: t.TempDir()}
	plugins := t.TempDir()
	_, err := stockplugins.Build(stockplugins.Hosted, plugins)
	require.NoError(t, err)
	temporary, err := os.MkdirTemp("", "state") //nolint:usetesting // the path of a socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temporary)) })
	s.Environment = append(s.Environment, "HOSTED_DIR="+h.dir, "TMPDIR="+temporary)
	args := []string{"--plugin-dir", plugins, "--config", site.ConfigFile(t,
		"backups: {concurrent: 3, admission: {plugin: cleat.dev/fifo}}\nrestores: {concurrent: 3}\n")}
	server := s.Serve(args...)
	s.Available()
	for range 2 {
		h.planes = append(h.planes, h.newPlane())
	}
	a, b := h.planes[0], h.planes[1]

	h.requireOwn(map[string]string{"first": a}, 1)
	h.requireOwn(map[string]string{"second": b}, 2)
	h.requireOwn(map[string]string{"third": a}, 3)
	h.requireOwn(map[string]string{"fourth": a, "fifth": b, "sixth": a}, 6)

	for name, backup := range map[string]string{"first": a, "second": b, "third": a} {
		s.RestoreTo("restore-"+name, name, backup, backup+"-"+name)
	}
	for _, name := range []string{"first", "second", "third"} {
		s.AwaitRestore("restore-"+name, velerov1.RestorePhaseCompleted)
	}
	h.requireNoted("restored", map[string]int{a: 2, b: 1})
	for _, name := range []string{"first", "second", "third"} {
		s.RequestDeletion(name)
	}
	for _, name := range []string{"first", "second", "third"} {
		s.AwaitGone(&velerov1.Backup{}, name)
	}
	h.requireNoted("removed", map[string]int{a: 2, b: 1})
	h.requireEnded()

	// A server that is killed leaves nothing that the next one does not remove.
	server.Kill()
	s.Serve(args...)
	s.Available()
	h.requireOwn(map[string]string{"last": b}, 7)
	h.requireEnded()
	sockets, err := filepath.Glob(filepath.Join(temporary, "plugin-dir*"))
	require.NoError(t, err)
	require.Empty(t, sockets)
	servers, err := filepath.Glob(filepath.Join(temporary, "cleat-server-*.lock"))
	require.NoError(t, err)
	require.Len(t, servers, 1, "of the server that runs")
}

// newPlane creates a control plane of three objects.
func (h *hosted) newPlane() string {
	h.T.Helper()
	plane := h.Workload(0)
	for _, name := range []string{"one", "two", "three"} {
		require.NoError(h.T, h.Client.Create(h.T.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: plane, Name: name, Labels: map[string]string{"hosted": "yes"},
			Annotations: map[string]string{"hosted": "TAKEN"},
		}}))
	}
	return plane
}

// requireOwn makes backups of planes at once. It requires that each has taken a snapshot of its plane, and has all its
// items refer to that. There are taken snapshots then.
func (h *hosted) requireOwn(backups map[string]string, taken int) {
	h.T.Helper()
	for name, plane := range backups {
		require.NoError(h.T, h.Client.Create(h.T.Context(), &velerov1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: name},
			Spec: velerov1.BackupSpec{IncludedNamespaces: []string{plane}, IncludedResources: []string{"configmaps"},
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"hosted": "yes"}}},
		}))
	}
	seen := map[string]bool{}
	for name, plane := range backups {
		h.AwaitBackup(name, velerov1.BackupPhaseCompleted)
		var url string
		for _, item := range []string{"one", "two", "three"} {
			var object metav1.PartialObjectMetadata
			require.NoError(h.T, json.Unmarshal(h.Archived(name, "resources/configmaps/namespaces/"+plane+"/"+item+".json"),
				&object))
			if url == "" {
				url = object.Annotations["hosted"]
			}
			require.Equal(h.T, url, object.Annotations["hosted"], "%s: %s", name, item)
		}
		require.True(h.T, strings.HasPrefix(url, "snapshot."+plane+"."), "%s of %s has %s", name, plane, url)
		require.False(h.T, seen[url], url)
		seen[url] = true
	}
	require.Len(h.T, h.noted("snapshot"), taken)
}

// noted returns the names of the files about what the plugin did.
func (h *hosted) noted(what string) []string {
	h.T.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, what+".*"))
	require.NoError(h.T, err)
	return files
}

// requireNoted requires how often the plugin did something for each plane.
func (h *hosted) requireNoted(what string, want map[string]int) {
	h.T.Helper()
	got := map[string]int{}
	for _, file := range h.noted(what) {
		got[strings.Split(filepath.Base(file), ".")[1]]++
	}
	require.Equal(h.T, want, got, what)
}

// requireEnded requires that each run had a process, and that all of them end.
func (h *hosted) requireEnded() {
	h.T.Helper()
	pids := map[string]bool{}
	files := h.noted("*")
	for _, file := range files {
		pid, err := os.ReadFile(file)
		require.NoError(h.T, err)
		pids[string(pid)] = true
	}
	require.Len(h.T, pids, len(files), "a process for each run")
	h.Eventually("the processes of the runs have ended", func(context.Context) (bool, error) {
		for pid := range pids {
			path, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
			if err == nil && strings.Contains(path, "stock-hosted") {
				return false, nil
			}
		}
		return true, nil
	})
}

// secretVolume is a directory as the kubelet mounts a Secret.
type secretVolume struct {
	dir     string
	content int
}

// write replaces the content as the kubelet does.
func (v *secretVolume) write(t *testing.T, name, content string) {
	t.Helper()
	v.content++
	data := filepath.Join(v.dir, "..", "content-"+string(rune('a'+v.content)))
	require.NoError(t, os.MkdirAll(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, name), []byte(content), 0o600))
	next := filepath.Join(v.dir, "..data_tmp")
	require.NoError(t, os.Symlink(data, next))
	require.NoError(t, os.Rename(next, filepath.Join(v.dir, "..data")))
	if v.content == 1 {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(v.dir, name)))
	}
}

// TestAcceptPlugins_RotatedCredentials changes the credentials of a default installation, which a variable names, in
// place: the location follows long before it is due, also if the store has a process of its own.
func TestAcceptPlugins_RotatedCredentials(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"in the server": nil, "in a process": {"--isolate-built-ins"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/s3")
			s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
				l.Spec.Credential, l.Spec.ValidationFrequency = nil, &metav1.Duration{Duration: time.Hour}
			})
			text := "[default]\naws_access_key_id=" + s.Cluster.S3.AccessKey + "\naws_secret_access_key="
			volume := &secretVolume{dir: filepath.Join(t.TempDir(), "cloud-credentials")}
			require.NoError(t, os.Mkdir(volume.dir, 0o700))
			volume.write(t, "cloud", text+"mistyped\n")
			s.Environment = append(s.Environment, "AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(volume.dir, "cloud"))
			s.Serve(args...)
			awaitPhase(s, velerov1.BackupStorageLocationPhaseUnavailable)
			volume.write(t, "cloud", text+s.Cluster.S3.SecretKey+"\n")
			awaitPhase(s, velerov1.BackupStorageLocationPhaseAvailable)
			volume.write(t, "cloud", text+"revoked\n")
			awaitPhase(s, velerov1.BackupStorageLocationPhaseUnavailable)
			volume.write(t, "cloud", text+s.Cluster.S3.SecretKey+"\n")
			awaitPhase(s, velerov1.BackupStorageLocationPhaseAvailable)
			s.BeginBackupOf("after", s.Workload(1))
			s.RequireWhole(s.AwaitBackup("after", velerov1.BackupPhaseCompleted))
		})
	}
}

// awaitPhase waits for a phase of the default location.
func awaitPhase(s *site.Site, want velerov1.BackupStorageLocationPhase) {
	s.T.Helper()
	s.Eventually("the location is "+string(want), func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.Client.Get(ctx, s.Key("default"), &location)
		return location.Status.Phase == want, err
	})
}
