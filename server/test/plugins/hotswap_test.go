package plugins_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptPlugins_ReplacedDuringRuns replaces, removes and adds a plugin binary of a running server while backups
// and restores call it: each of them completes and uses one version only. Tests in server/internal/host/pluginhost
// cover the details.
func TestAcceptPlugins_ReplacedDuringRuns(t *testing.T) {
	t.Parallel()
	p := newStampPlugin(t)
	p.put(1)
	s := site.New(t, "cleat.dev/s3")
	server := s.Serve("--plugin-dir", p.pluginDir, "--concurrent-backups", "10")
	s.Available()

	// These backups all block in the plugin, in the version that was installed when they began. Each has its own
	// namespace, so that they do not wait for each other.
	version, shop := map[string]string{}, map[string]string{}
	beginOne := func(name string) {
		shop[name] = s.Workload(10)
		s.Shop = shop[name]
		s.BeginBackup(name)
	}
	begin := func(wants string, names ...string) {
		for _, name := range names {
			version[name] = wants
			beginOne(name)
		}
		for _, name := range names {
			p.awaitSeen(s, name, wants)
		}
	}
	begin("1", "a1", "a2", "a3")
	p.put(2)
	server.AwaitLog(`pluginVersion=2 version=2 used=true`)
	begin("2", "b1", "b2")
	p.put(3)
	server.AwaitLog(`pluginVersion=3 version=2 used=true`)
	begin("3", "c1")
	p.remove()
	server.AwaitLog(`plugin was removed`)
	beginOne("without")
	s.AwaitBackup("without", velerov1.BackupPhaseCompleted)
	p.put(4)
	server.AwaitLog(`pluginVersion=4 version=2 used=true`)
	begin("4", "d1")
	p.open()
	for name, version := range version {
		s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
		require.Equal(t, map[string]int{version: 10}, stamps(s, name, shop[name]), "backup %s", name)
	}
	require.Equal(t, map[string]int{"": 10}, stamps(s, "without", shop["without"]))

	// The same with restores, while another backup runs.
	p.shut()
	beginStampedRestore(s, "r1", "a1", shop["a1"])
	p.awaitSeen(s, "r1", "4")
	begin("4", "e1")
	beginStampedRestore(s, "r2", "b1", shop["b1"]) // begins when a slot is free
	p.put(5)
	server.AwaitLog(`pluginVersion=5 version=2 used=true`)
	beginStampedRestore(s, "r3", "c1", shop["c1"])
	begin("5", "f1")
	p.open()
	for _, name := range []string{"e1", "f1"} {
		s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
		require.Equal(t, map[string]int{version[name]: 10}, stamps(s, name, shop[name]), "backup %s", name)
	}
	require.Equal(t, map[string]int{"4": 10}, restored(s, "r1"))
	require.Len(t, restored(s, "r2"), 1)
	require.Equal(t, map[string]int{"5": 10}, restored(s, "r3"))

	s.Eventually("the processes of the old versions are gone", func(context.Context) (bool, error) {
		if running := p.processes(); running != 1 {
			return false, fmt.Errorf("%d run", running)
		}
		return true, nil
	})
}

// stampPlugin is a plugin with many versions.
type stampPlugin struct {
	t                               *testing.T
	program, pluginDir, notes, goOn string
}

func newStampPlugin(t *testing.T) *stampPlugin {
	t.Helper()
	dir := t.TempDir()
	p := &stampPlugin{t: t, program: programs.Build(t, "server/test/plugins/testdata/stamp"),
		pluginDir: filepath.Join(dir, "plugins"), notes: filepath.Join(dir, "notes")}
	p.goOn = filepath.Join(p.notes, "go")
	require.NoError(t, os.Mkdir(p.pluginDir, 0o755))
	require.NoError(t, os.Mkdir(p.notes, 0o755))
	return p
}

// put installs a version in the plugin directory.
func (p *stampPlugin) put(version int) {
	p.t.Helper()
	program, err := os.ReadFile(p.program)
	require.NoError(p.t, err)
	ending, err := json.Marshal(map[string]string{"Version": fmt.Sprint(version), "Dir": p.notes})
	require.NoError(p.t, err)
	path := filepath.Join(p.pluginDir, "stamp")
	require.NoError(p.t, os.WriteFile(path+".tmp", append(append(program, "\nstamp:"...), ending...), 0o755))
	require.NoError(p.t, os.Rename(path+".tmp", path))
}

func (p *stampPlugin) remove() { require.NoError(p.t, os.Remove(filepath.Join(p.pluginDir, "stamp"))) }

// open releases all runs that block in the plugin, and does not block others until shut is called.
func (p *stampPlugin) open() { require.NoError(p.t, os.WriteFile(p.goOn, nil, 0o600)) }

func (p *stampPlugin) shut() { require.NoError(p.t, os.Remove(p.goOn)) }

// awaitSeen waits until a run blocks in the plugin, which must have the given version.
func (p *stampPlugin) awaitSeen(s *site.Site, operation, version string) {
	p.t.Helper()
	s.Eventually(operation+" is in the plugin", func(context.Context) (bool, error) {
		notes, err := filepath.Glob(filepath.Join(p.notes, operation+"-*"))
		if len(notes) > 0 {
			require.Equal(p.t, operation+"-"+version, filepath.Base(notes[0]))
		}
		return len(notes) > 0, err
	})
}

// processes returns the number of processes that run a version of the plugin.
func (p *stampPlugin) processes() int {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(p.t, err)
	running := 0
	for _, command := range commands {
		if line, err := os.ReadFile(command); err == nil && strings.HasPrefix(string(line), p.pluginDir+"/") {
			running++
		}
	}
	return running
}

func beginStampedRestore(s *site.Site, name, backup, shop string) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: velerov1.RestoreSpec{BackupName: backup, NamespaceMapping: map[string]string{shop: "restored-" +
			s.Namespace + "-" + name}},
	}))
}

// restored waits for the end of a restore and counts the ConfigMaps that it created, by the version in their label.
func restored(s *site.Site, name string) map[string]int {
	s.T.Helper()
	s.Eventually("restore "+name+" is completed", func(ctx context.Context) (bool, error) {
		var r velerov1.Restore
		err := s.Client.Get(ctx, s.Key(name), &r)
		if r.Status.Phase.Terminal() {
			require.Equal(s.T, velerov1.RestorePhaseCompleted, r.Status.Phase, r.Status.FailureReason)
		}
		return r.Status.Phase.Terminal(), err
	})
	var list corev1.ConfigMapList
	require.NoError(s.T, s.Client.List(s.T.Context(), &list, client.InNamespace("restored-"+s.Namespace+"-"+name)))
	versions := map[string]int{}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "item-") {
			versions[list.Items[i].Labels["restored-by"]]++
		}
	}
	return versions
}

// stamps counts the ConfigMaps in a backup, by the version in their label.
func stamps(s *site.Site, name, shop string) map[string]int {
	s.T.Helper()
	file, err := os.Open(filepath.Join(s.BucketDir, "backups", name, name+".tar.gz"))
	require.NoError(s.T, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(s.T, err)
	versions := map[string]int{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return versions
		}
		require.NoError(s.T, err)
		if dir, file := filepath.Split(header.Name); dir != "resources/configmaps/namespaces/"+shop+"/" ||
			!strings.HasPrefix(file, "item-") {
			continue
		}
		var item metav1.PartialObjectMetadata
		require.NoError(s.T, json.NewDecoder(archive).Decode(&item))
		versions[item.Labels["backed-up-by"]]++
	}
}
