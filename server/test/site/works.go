package site

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

// Works are the operations of the plugin "worker" of one site.
type Works struct {
	Site    *Site
	Dir     string   // the directory in which the plugin stores its operations
	Plugins string   // the directory of the plugin
	Args    []string // of a server with the plugin
}

// Work installs the plugin. settings is YAML that is added to the server's configuration.
func (s *Site) Work(settings ...string) *Works {
	s.T.Helper()
	dir := s.T.TempDir()
	w := &Works{Site: s, Dir: filepath.Join(dir, "work"), Plugins: filepath.Join(dir, "plugins")}
	require.NoError(s.T, os.Mkdir(w.Dir, 0o700))
	programs.Copy(s.T, "server/test/site/testdata/worker", filepath.Join(w.Plugins, "worker"))
	config := filepath.Join(dir, "cleat.yaml")
	text := fmt.Sprintf("apiVersion: cleat.dev/v1\nplugins: {variables: {WORK_DIR: %q}}\n%s\n", w.Dir,
		strings.Join(settings, "\n"))
	require.NoError(s.T, os.WriteFile(config, []byte(text), 0o600))
	w.Args = []string{"--config", config, "--plugin-dir", w.Plugins, "--item-operation-sync-frequency", "1s"}
	return w
}

// SetPlugins adds a setting of plugins to the server's configuration, before the server starts.
func (w *Works) SetPlugins(setting string) {
	w.Site.T.Helper()
	config := filepath.Join(filepath.Dir(w.Dir), "cleat.yaml")
	text, err := os.ReadFile(config)
	require.NoError(w.Site.T, err)
	text = []byte(strings.Replace(string(text), "plugins: {", "plugins: {"+setting+", ", 1))
	require.NoError(w.Site.T, os.WriteFile(config, text, 0o600))
}

// Set adds a section to the server's configuration, before the server starts.
func (w *Works) Set(section string) {
	w.Site.T.Helper()
	config := filepath.Join(filepath.Dir(w.Dir), "cleat.yaml")
	text, err := os.ReadFile(config)
	require.NoError(w.Site.T, err)
	require.NoError(w.Site.T, os.WriteFile(config, append(text, section+"\n"...), 0o600))
}

// Item creates a ConfigMap for which the plugin starts an operation. worker is "keyed" or "keyless"; annotations are
// the annotations for the plugin without their prefix, such as "as", "fails".
func (s *Site) Item(namespace, name, worker string, annotations ...string) {
	s.T.Helper()
	item := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"worker": worker}, Annotations: map[string]string{},
	}}
	for i := 0; i < len(annotations); i += 2 {
		item.Annotations["work/"+annotations[i]] = annotations[i+1]
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), item))
}

// Finish ends the operations whose length is "held".
func (w *Works) Finish() {
	w.Site.T.Helper()
	require.NoError(w.Site.T, os.WriteFile(filepath.Join(w.Dir, "finish"), nil, 0o600))
}

// Notes returns the numbers of operations that were begun, have ended and were cancelled, by "WHAT ITEM". A killed
// process has begun an operation if its file exists.
func (w *Works) Notes() map[string]int {
	w.Site.T.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, "notes"))
	if !os.IsNotExist(err) {
		require.NoError(w.Site.T, err)
	}
	counts := map[string]int{}
	begun, err := filepath.Glob(filepath.Join(w.Dir, "operations", "*"))
	require.NoError(w.Site.T, err)
	for _, file := range begun {
		content, err := os.ReadFile(file)
		if os.IsNotExist(err) || strings.Contains(filepath.Base(file), ".") {
			continue // it is being written
		}
		require.NoError(w.Site.T, err)
		var operation struct{ Item string }
		require.NoError(w.Site.T, json.Unmarshal(content, &operation))
		counts["begun "+operation.Item]++
		if _, err := os.Stat(filepath.Join(w.Dir, "ended", filepath.Base(file))); err == nil {
			counts["ended "+operation.Item]++
		}
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		counts[fields[0]+" "+fields[len(fields)-1]]++
	}
	return counts
}

// Journals returns the ConfigMaps that record the starts of operations.
func (s *Site) Journals(ctx context.Context) []corev1.ConfigMap {
	var pages corev1.ConfigMapList
	require.NoError(s.T, s.Client.List(ctx, &pages, client.InNamespace(s.Namespace),
		client.HasLabels{"cleat.dev/operations"}))
	return pages.Items
}

// AwaitNoJournals waits until no operation is recorded as open any more.
func (s *Site) AwaitNoJournals() {
	s.T.Helper()
	s.Eventually("no operation is open any more",
		func(ctx context.Context) (bool, error) { return len(s.Journals(ctx)) == 0, nil })
}

// AwaitRestore waits until a restore has ended in a phase.
func (s *Site) AwaitRestore(name string, want velerov1.RestorePhase) *velerov1.Restore {
	s.T.Helper()
	var r velerov1.Restore
	s.Eventually(fmt.Sprintf("restore %s is %s", name, want), func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &r)
		if err == nil && r.Status.Phase.Terminal() && r.Status.Phase != want {
			require.Fail(s.T, "restore ended otherwise", "%s: %s %s %v", name, r.Status.Phase, r.Status.FailureReason,
				r.Status.ValidationErrors)
		}
		return r.Status.Phase == want, err
	})
	return &r
}

// RestoreTo creates a restore of a backup into another namespace.
func (s *Site) RestoreTo(name, backup, from, to string) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: backup, NamespaceMapping: map[string]string{from: to}},
	}))
}

// AwaitNote waits until the plugin has recorded a text.
func (w *Works) AwaitNote(what string) {
	w.Site.T.Helper()
	w.Site.Eventually("the plugin notes: "+what, func(context.Context) (bool, error) { return w.Notes()[what] > 0, nil })
}

// Messages returns the errors in the results of a backup as text.
func (s *Site) Messages(backup string) string {
	s.T.Helper()
	raw := Gzipped[map[string]json.RawMessage](s, "backups/"+backup+"/"+backup+"-results.gz")
	return string(raw["errors"])
}

// Operations returns the operations in the file of a backup.
func (s *Site) Operations(b *velerov1.Backup) []operation.Operation {
	s.T.Helper()
	file := Gzipped[operation.File](s, "backups/"+b.Name+"/"+b.Name+"-itemoperations.json.gz")
	all, err := file.Operations(&operation.Owner{Kind: operation.OfBackup, Name: b.Name, UID: b.UID})
	require.NoError(s.T, err)
	return all
}

// AwaitEnd waits until a backup has ended.
func (s *Site) AwaitEnd(name string) *velerov1.Backup {
	s.T.Helper()
	var b velerov1.Backup
	s.Eventually("backup "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &b)
		return b.Status.Phase.Terminal(), err
	})
	return &b
}

// BeginWork creates a backup of a namespace with one item for which the plugin starts an operation.
func (s *Site) BeginWork(name, worker string, timeout time.Duration, annotations ...string) (shop string) {
	s.T.Helper()
	shop = s.Workload(1)
	s.Item(shop, "work", worker, annotations...)
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{shop},
			ItemOperationTimeout: metav1.Duration{Duration: timeout}},
	}))
	return shop
}

// Hold stops the n-th call of the plugin in a round at its point. held returns the name of the point, or "" before.
func (w *Works) Hold(round string, n int) (held func() string) {
	w.Site.T.Helper()
	file := filepath.Join(w.Dir, "hold")
	require.NoError(w.Site.T, os.WriteFile(file+".new", fmt.Appendf(nil, "%s %d", round, n), 0o600))
	require.NoError(w.Site.T, os.Rename(file+".new", file))
	return func() string {
		place, err := os.ReadFile(filepath.Join(w.Dir, "held", round))
		if !os.IsNotExist(err) {
			require.NoError(w.Site.T, err)
		}
		return string(place)
	}
}

// Release lets all calls continue from now on.
func (w *Works) Release() { require.NoError(w.Site.T, os.Remove(filepath.Join(w.Dir, "hold"))) }

// RequireOnce requires that all operations of a run were begun once and have ended once, and that none was cancelled.
func (w *Works) RequireOnce(run, namespace string, items ...string) {
	w.Site.T.Helper()
	notes := w.Notes()
	for _, item := range items {
		of := fmt.Sprintf("%s/%s/%s", run, namespace, item)
		require.Equal(w.Site.T, 1, notes["begun "+of], "begun %s: %v", of, notes)
		require.Equal(w.Site.T, 1, notes["ended "+of], "ended %s: %v", of, notes)
		require.Zero(w.Site.T, notes["cancel "+of], "cancelled %s", of)
	}
}

// Forget removes the operations of the plugin, so that the next round begins from scratch.
func (w *Works) Forget() {
	w.Site.T.Helper()
	require.NoError(w.Site.T, os.RemoveAll(filepath.Join(w.Dir, "notes")))
	require.NoError(w.Site.T, os.RemoveAll(filepath.Join(w.Dir, "operations")))
}

// KillPlugin kills the processes of the plugin with SIGKILL and returns their number.
func (w *Works) KillPlugin() (killed int) {
	w.Site.T.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(w.Site.T, err)
	for _, link := range links {
		program, err := os.Readlink(link)
		if err != nil || program != filepath.Join(w.Plugins, "worker") {
			continue // it has exited, or its ID belongs to another one
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		require.NoError(w.Site.T, err)
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// Work returns the amount of work that the plugin has done so far.
func (w *Works) Work() int {
	sum := 0
	for _, count := range w.Notes() {
		sum += count
	}
	return sum
}
