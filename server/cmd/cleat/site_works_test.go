package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// works are the operations of the plugin "worker" of one site.
type works struct {
	site    *site
	dir     string   // the plugin keeps its operations here
	plugins string   // the directory of the plugin
	args    []string // of a server with the plugin
}

// work installs the plugin. settings is YAML that is added to the server's configuration.
func (s *site) work(settings ...string) *works {
	s.t.Helper()
	dir := s.t.TempDir()
	w := &works{site: s, dir: filepath.Join(dir, "work"), plugins: filepath.Join(dir, "plugins")}
	require.NoError(s.t, os.Mkdir(w.dir, 0o700))
	programs.Copy(s.t, "server/cmd/cleat/testdata/worker", filepath.Join(w.plugins, "worker"))
	config := filepath.Join(dir, "cleat.yaml")
	text := fmt.Sprintf("apiVersion: cleat.dev/v1\nplugins: {variables: {WORK_DIR: %q}}\n%s\n", w.dir,
		strings.Join(settings, "\n"))
	require.NoError(s.t, os.WriteFile(config, []byte(text), 0o600))
	w.args = []string{"--config", config, "--plugin-dir", w.plugins, "--item-operation-sync-frequency", "1s"}
	return w
}

// setPlugins adds a setting of plugins to the server's configuration, before the server starts.
func (w *works) setPlugins(setting string) {
	w.site.t.Helper()
	config := filepath.Join(filepath.Dir(w.dir), "cleat.yaml")
	text, err := os.ReadFile(config)
	require.NoError(w.site.t, err)
	text = []byte(strings.Replace(string(text), "plugins: {", "plugins: {"+setting+", ", 1))
	require.NoError(w.site.t, os.WriteFile(config, text, 0o600))
}

// set adds a section to the server's configuration, before the server starts.
func (w *works) set(section string) {
	w.site.t.Helper()
	config := filepath.Join(filepath.Dir(w.dir), "cleat.yaml")
	text, err := os.ReadFile(config)
	require.NoError(w.site.t, err)
	require.NoError(w.site.t, os.WriteFile(config, append(text, section+"\n"...), 0o600))
}

// item creates a ConfigMap for which the plugin starts an operation. worker is "keyed" or "keyless"; annotations are
// those of the plugin without their prefix, such as "as", "fails".
func (s *site) item(namespace, name, worker string, annotations ...string) {
	s.t.Helper()
	item := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"worker": worker}, Annotations: map[string]string{},
	}}
	for i := 0; i < len(annotations); i += 2 {
		item.Annotations["work/"+annotations[i]] = annotations[i+1]
	}
	require.NoError(s.t, s.client.Create(s.t.Context(), item))
}

// finish lets the operations end whose length is "held".
func (w *works) finish() {
	w.site.t.Helper()
	require.NoError(w.site.t, os.WriteFile(filepath.Join(w.dir, "finish"), nil, 0o600))
}

// notes returns how many operations were begun, have ended and were cancelled, counted by "WHAT ITEM". A process that
// is killed has begun an operation when its file is there.
func (w *works) notes() map[string]int {
	w.site.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "notes"))
	if !os.IsNotExist(err) {
		require.NoError(w.site.t, err)
	}
	counts := map[string]int{}
	begun, err := filepath.Glob(filepath.Join(w.dir, "operations", "*"))
	require.NoError(w.site.t, err)
	for _, file := range begun {
		content, err := os.ReadFile(file)
		if os.IsNotExist(err) || strings.Contains(filepath.Base(file), ".") {
			continue // it is being written
		}
		require.NoError(w.site.t, err)
		var operation struct{ Item string }
		require.NoError(w.site.t, json.Unmarshal(content, &operation))
		counts["begun "+operation.Item]++
		if _, err := os.Stat(filepath.Join(w.dir, "ended", filepath.Base(file))); err == nil {
			counts["ended "+operation.Item]++
		}
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		counts[fields[0]+" "+fields[len(fields)-1]]++
	}
	return counts
}

// journals returns the ConfigMaps that record the starts of operations.
func (s *site) journals(ctx context.Context) []corev1.ConfigMap {
	var pages corev1.ConfigMapList
	require.NoError(s.t, s.client.List(ctx, &pages, client.InNamespace(s.namespace),
		client.HasLabels{"cleat.dev/operations"}))
	return pages.Items
}

// awaitNoJournals waits until no operation is recorded as open any more.
func (s *site) awaitNoJournals() {
	s.t.Helper()
	s.eventually("no operation is open any more",
		func(ctx context.Context) (bool, error) { return len(s.journals(ctx)) == 0, nil })
}

// awaitRestore waits until a restore has ended in a phase.
func (s *site) awaitRestore(name string, want velerov1.RestorePhase) *velerov1.Restore {
	s.t.Helper()
	var r velerov1.Restore
	s.eventually(fmt.Sprintf("restore %s is %s", name, want), func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &r)
		if err == nil && r.Status.Phase.Terminal() && r.Status.Phase != want {
			require.Fail(s.t, "restore ended otherwise", "%s: %s %s %v", name, r.Status.Phase, r.Status.FailureReason,
				r.Status.ValidationErrors)
		}
		return r.Status.Phase == want, err
	})
	return &r
}

// restoreTo creates a restore of a backup into another namespace.
func (s *site) restoreTo(name, backup, from, to string) {
	s.t.Helper()
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: backup, NamespaceMapping: map[string]string{from: to}},
	}))
}

// awaitNote waits until the plugin has noted something.
func (w *works) awaitNote(what string) {
	w.site.t.Helper()
	w.site.eventually("the plugin notes: "+what, func(context.Context) (bool, error) { return w.notes()[what] > 0, nil })
}

// messages returns the errors in the results of a backup as text.
func (s *site) messages(backup string) string {
	s.t.Helper()
	raw := gzipped[map[string]json.RawMessage](s, "backups/"+backup+"/"+backup+"-results.gz")
	return string(raw["errors"])
}

// operations returns the operations in the file of a backup.
func (s *site) operations(b *velerov1.Backup) []operation.Operation {
	s.t.Helper()
	file := gzipped[operation.File](s, "backups/"+b.Name+"/"+b.Name+"-itemoperations.json.gz")
	all, err := file.Operations(&operation.Owner{Kind: operation.OfBackup, Name: b.Name, UID: b.UID})
	require.NoError(s.t, err)
	return all
}

// awaitEnd waits until a backup has ended.
func (s *site) awaitEnd(name string) *velerov1.Backup {
	s.t.Helper()
	var b velerov1.Backup
	s.eventually("backup "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &b)
		return b.Status.Phase.Terminal(), err
	})
	return &b
}

// begin creates a backup of a namespace with one item for which the plugin starts an operation.
func (s *site) beginWork(name, worker string, timeout time.Duration, annotations ...string) (shop string) {
	s.t.Helper()
	shop = s.workload(1)
	s.item(shop, "work", worker, annotations...)
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{shop},
			ItemOperationTimeout: metav1.Duration{Duration: timeout}},
	}))
	return shop
}

// hold makes the n-th call of the plugin in a round stop at its place. held returns the place, "" before.
func (w *works) hold(round string, n int) (held func() string) {
	w.site.t.Helper()
	file := filepath.Join(w.dir, "hold")
	require.NoError(w.site.t, os.WriteFile(file+".new", fmt.Appendf(nil, "%s %d", round, n), 0o600))
	require.NoError(w.site.t, os.Rename(file+".new", file))
	return func() string {
		place, err := os.ReadFile(filepath.Join(w.dir, "held", round))
		if !os.IsNotExist(err) {
			require.NoError(w.site.t, err)
		}
		return string(place)
	}
}

// release lets all calls go on from now on.
func (w *works) release() { require.NoError(w.site.t, os.Remove(filepath.Join(w.dir, "hold"))) }

// requireOnce requires that all operations of a run were begun once and have ended once, and that none was cancelled.
func (w *works) requireOnce(run, namespace string, items ...string) {
	w.site.t.Helper()
	notes := w.notes()
	for _, item := range items {
		of := fmt.Sprintf("%s/%s/%s", run, namespace, item)
		require.Equal(w.site.t, 1, notes["begun "+of], "begun %s: %v", of, notes)
		require.Equal(w.site.t, 1, notes["ended "+of], "ended %s: %v", of, notes)
		require.Zero(w.site.t, notes["cancel "+of], "cancelled %s", of)
	}
}

// forget removes the operations of the plugin, so that the next round begins anew.
func (w *works) forget() {
	w.site.t.Helper()
	require.NoError(w.site.t, os.RemoveAll(filepath.Join(w.dir, "notes")))
	require.NoError(w.site.t, os.RemoveAll(filepath.Join(w.dir, "operations")))
}

// killPlugin kills the processes of the plugin with SIGKILL and returns how many there were.
func (w *works) killPlugin() (killed int) {
	w.site.t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(w.site.t, err)
	for _, link := range links {
		program, err := os.Readlink(link)
		if err != nil || program != filepath.Join(w.plugins, "worker") {
			continue // it has exited, or is another one
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		require.NoError(w.site.t, err)
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// work returns how much the plugin has done so far.
func (w *works) work() int {
	sum := 0
	for _, count := range w.notes() {
		sum += count
	}
	return sum
}
