package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
)

// TestAcceptPlugins_ItemBlockAndDeleteActions runs the kinds of actions that start nothing: ItemBlockActions and
// DeleteItemActions, of plugins of the framework and of stock plugins. The latter use only the namespace shop, so the
// tests run one after the other.
func TestAcceptPlugins_ItemBlockAndDeleteActions(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.UseShop()
	testDeleteItemActionsAreCalled(t)
	testItemBlockActionsAreCalled(t)
}

// blocks are the notes of the plugin "blocks" in one site.
type blocks struct {
	site *site.Site
	dir  string
}

// lines returns the notes about items of a backup whose names begin with a prefix, in their order.
func (b *blocks) lines(backup, prefix string) []string {
	b.site.T.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, backup))
	require.NoError(b.site.T, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if _, name, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// inTurn returns the notes of a worker that backs up items one after the other.
func inTurn(items ...string) []string {
	var lines []string
	for _, item := range items {
		lines = append(lines, "begun "+item, "ended "+item)
	}
	return lines
}

// related creates a ConfigMap. annotations are the annotations for the plugin without their prefix, such as "relates".
func related(s *site.Site, namespace, name string, labels map[string]string, annotations ...string) {
	s.T.Helper()
	item := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels,
		Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		item.Annotations["blocks/"+annotations[i]] = annotations[i+1]
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), item))
}

// beginPicked creates a backup of the items of a namespace with the label pick=yes, without Secrets.
func beginPicked(s *site.Site, name, namespace string) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: velerov1.BackupSpec{
			IncludedNamespaces: []string{namespace}, ExcludedResources: []string{"secrets"},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pick": "yes"}},
		},
	}))
}

func testItemBlockActionsAreCalled(t *testing.T) {
	s := site.New(t, "cleat.dev/s3")
	dir := t.TempDir()
	b := &blocks{site: s, dir: filepath.Join(dir, "notes")}
	require.NoError(t, os.Mkdir(b.dir, 0o700))
	plugins := filepath.Join(dir, "plugins")
	programs.Copy(t, "server/test/site/testdata/blocks", filepath.Join(plugins, "blocks"))
	_, err := stockplugins.Build("2024", plugins)
	require.NoError(t, err)
	config := filepath.Join(dir, "cleat.yaml")
	// With one call at a time, only blocks on different workers are backed up concurrently.
	text := fmt.Sprintf("apiVersion: cleat.dev/v1\nplugins: {concurrency: {example.io/blocks: 1}, variables: "+
		"{BLOCKS_DIR: %q}}\n", b.dir)
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	server := s.Serve("--config", config, "--plugin-dir", plugins, "--item-block-worker-count", "4")
	s.Available()

	// Four blocks: the first item relates the others, which follow it in the list. It is finished only when the work
	// on all four has begun. If another worker had the others, it would take one of them meanwhile.
	picked := map[string]string{"pick": "yes"}
	shop, other := s.Workload(0), s.Workload(1)
	letters := []string{"a", "b", "c", "d"}
	for _, letter := range letters {
		item := func(n int) string { return fmt.Sprintf("configmaps/%s/%s-%d", shop, letter, n) }
		related(s, shop, letter+"-0", picked, "relates", item(1)+" "+item(3), "meets", "a-0 b-0 c-0 d-0")
		related(s, shop, letter+"-1", nil, "relates", item(2)+" "+item(0))
		related(s, shop, letter+"-2", nil)
		related(s, shop, letter+"-3", nil)
	}
	// Items that are not backed up, each for a different reason.
	require.NoError(t, s.Client.Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "word"}}))
	related(s, shop, "left-out", map[string]string{"velero.io/exclude-from-backup": "true"})
	related(s, shop, "asks", picked, "relates", fmt.Sprintf("secrets/%s/word configmaps/%s/left-out configmaps/%s/item-a "+
		"configmaps/%[1]s/gone", shop, shop, other))
	related(s, shop, "fails", picked, "fails", "no luck today")

	inBackup := func(name, resource string) []string {
		var names []string
		list := site.Gzipped[map[string][]string](s, "backups/"+name+"/"+name+"-resource-list.json.gz")
		for _, item := range list[resource] {
			if !strings.HasSuffix(item, "/kube-root-ca.crt") {
				names = append(names, item)
			}
		}
		return names
	}
	var want []string
	for _, name := range []string{"a-0", "a-1", "a-2", "a-3", "asks", "b-0", "b-1", "b-2", "b-3", "c-0", "c-1", "c-2",
		"c-3", "d-0", "d-1", "d-2", "d-3", "fails"} {
		want = append(want, shop+"/"+name)
	}
	s.BeginBackupOf("whole", shop)
	beginPicked(s, "picked", shop)
	for _, name := range []string{"whole", "picked"} {
		backup := s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
		s.RequireWhole(backup)
		for _, letter := range letters {
			require.Equal(t, inTurn(letter+"-0", letter+"-1", letter+"-3", letter+"-2"), b.lines(name, letter+"-"), name)
		}
		require.ElementsMatch(t, want, inBackup(name, "v1/ConfigMap"), name)
		require.Equal(t, 2, backup.Status.Warnings, name)
		warnings := string(site.Gzipped[map[string]json.RawMessage](s, "backups/"+name+"/"+name+"-results.gz")["warnings"])
		require.Contains(t, warnings, "no luck today", name)
		require.Contains(t, warnings, "name: /gone message: /related item does not exist, it is left out", name)
	}
	require.Equal(t, []string{shop + "/word"}, inBackup("whole", "v1/Secret"))
	require.Empty(t, inBackup("picked", "v1/Secret"))

	// The stock plugin relates the pod shop/web-1 to ConfigMaps and pods. Its action for pods starts an operation that
	// fails.
	related(s, "shop", "stock-front", picked)
	s.Eventually("the pod is created", func(ctx context.Context) (bool, error) { // needs the namespace's service account
		err := s.Client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		})
		return err == nil, err
	})
	beginPicked(s, "stock", "shop")
	stock := s.AwaitBackup("stock", velerov1.BackupPhasePartiallyFailed)
	require.Equal(t, [3]int{1, 0, 1}, [3]int{
		stock.Status.BackupItemOperationsAttempted, stock.Status.BackupItemOperationsCompleted,
		stock.Status.BackupItemOperationsFailed,
	})
	require.Contains(t, s.Messages("stock"), "disk full")
	require.Equal(t, inTurn("stock-front", "web-1"), b.lines("stock", ""))
	require.Equal(t, []string{"shop/stock-front"}, inBackup("stock", "v1/ConfigMap"))
	require.Equal(t, []string{"shop/web-1"}, inBackup("stock", "v1/Pod"))
	server.AwaitLog("stock block action runs")
}
