package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
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

// isRecorded reports whether a journal has an operation of an item.
func (s *site) isRecorded(ctx context.Context, item string) bool {
	return slices.ContainsFunc(s.journals(ctx), func(page corev1.ConfigMap) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(page.Data)),
			func(lines string) bool { return strings.Contains(lines, `"`+item+`"`) })
	})
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

// TestAcceptOperations_Followed follows operations of both kinds of actions, with and without keys, of a backup and of
// a restore.
func TestAcceptOperations_Followed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	w := s.work()
	s.serve(w.args...)
	s.available()
	shop := s.workload(3)
	s.item(shop, "keyed-a", "keyed")
	s.item(shop, "keyed-b", "keyed", "length", "2s")
	s.item(shop, "keyless", "keyless")
	s.item(shop, "nothing", "keyed", "as", "no id")
	s.beginBackupOf("b", shop)

	b := s.awaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, [3]int{3, 3, 0}, [3]int{b.Status.BackupItemOperationsAttempted,
		b.Status.BackupItemOperationsCompleted, b.Status.BackupItemOperationsFailed})
	s.requireWhole(b)
	want := map[string]int{}
	for _, item := range []string{"keyed-a", "keyed-b", "keyless"} {
		want["begun backup/"+shop+"/"+item], want["ended backup/"+shop+"/"+item] = 1, 1
	}
	require.Equal(t, want, w.notes())

	s.restoreTo("r", "b", shop, shop+"-copy")
	r := s.awaitRestore("r", velerov1.RestorePhaseCompleted)
	require.Equal(t, [3]int{3, 3, 0}, [3]int{r.Status.RestoreItemOperationsAttempted,
		r.Status.RestoreItemOperationsCompleted, r.Status.RestoreItemOperationsFailed})
	notes := w.notes()
	require.Len(t, notes, 12)
	for what, n := range notes {
		require.Equal(t, 1, n, what)
	}
	require.True(t, slices.Contains(s.files("restores/r"), "restore-r-itemoperations.json.gz"))
	s.awaitNoJournals()
}
