package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// inProgress creates a backup that runs until the test ends it: no server has started it.
func (s *site) inProgress(name string, namespaces ...string) {
	s.t.Helper()
	s.createInProgress(&velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: namespaces},
		Status: velerov1.BackupStatus{StartTimestamp: new(metav1.Now()), Progress: &velerov1.BackupProgress{TotalItems: 9,
			ItemsBackedUp: 4}},
	})
}

// endBackup ends a backup of inProgress.
func (s *site) endBackup(name string) {
	s.t.Helper()
	var b velerov1.Backup
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &b))
	before := b.DeepCopy()
	b.Status.Phase, b.Status.CompletionTimestamp = velerov1.BackupPhaseCompleted, new(metav1.Now())
	require.NoError(s.t, s.client.Patch(s.t.Context(), &b, client.MergeFrom(before)))
}

// enqueue creates a backup with the command and waits for its position.
func (s *site) enqueue(name string, position int, namespaces string) {
	s.t.Helper()
	args := []string{"backup", "create", name}
	if namespaces != "" {
		args = append(args, "--include-namespaces", namespaces)
	}
	s.must(args...)
	s.eventually(name+" has its place", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, &b)
		return b.Status.QueuePosition == position && b.Annotations[velerov1.QueueWaitAnnotation] != "", err
	})
}

// Patterns of the output that differs between test runs.
var (
	agesRead   = regexp.MustCompile(`\b\d+[smh](\d+[smh])? ago`)
	timesRead  = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d( \+0000 UTC|Z)`)
	columnGaps = regexp.MustCompile(`( ago|SINCE) {3,}`)
)

// requireRead compares output with a golden file, except for times and the widths of columns.
func (s *site) requireRead(name, text string) {
	s.t.Helper()
	text = strings.ReplaceAll(text, s.namespace, "velero")
	text = timesRead.ReplaceAllString(agesRead.ReplaceAllString(text, "<age> ago"), "<time>")
	text = columnGaps.ReplaceAllString(text, "$1   ")
	path := filepath.Join("testdata", "queue", name)
	if *update {
		require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(s.t, err)
	require.Equal(s.t, string(want), text)
}

// kubectlGet returns the table of "kubectl get backups", which the API server makes, without the age.
func (s *site) kubectlGet() string {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(s.t, err)
	c, err := rest.HTTPClientFor(config)
	require.NoError(s.t, err)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet,
		config.Host+"/apis/velero.io/v1/namespaces/"+s.namespace+"/backups", http.NoBody)
	require.NoError(s.t, err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := c.Do(request)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	var shown metav1.Table
	require.NoError(s.t, json.NewDecoder(answer.Body).Decode(&shown))
	var text strings.Builder
	for _, column := range shown.ColumnDefinitions {
		text.WriteString(column.Name + ";")
	}
	for _, row := range shown.Rows {
		fmt.Fprintf(&text, "\n%v", row.Cells[:3])
	}
	return text.String() + "\n"
}

// TestAcceptQueue_Explain compares everything that commands print about a queue of two running and five waiting
// backups, and about its changes. The server is a real one; the running backups run until the test ends them.
func TestAcceptQueue_Explain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	server := s.serve("--concurrent-backups", "2")
	s.available()
	empty := "0 of 2 slots in use; policy cleat.dev/namespace-overlap decides\nNo backup is running or waiting.\n"
	require.Equal(t, empty, s.must("queue", "--timeout", "2m"))

	s.inProgress("orders", "shop", "billing")
	s.eventually("the first one is older", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "orders"}, &b)
		return time.Since(b.CreationTimestamp.Time) > 1100*time.Millisecond, err
	})
	s.inProgress("mail", "mail")
	s.enqueue("shop-hourly", 1, "shop,web")
	s.enqueue("web", 2, "web")
	s.enqueue("ledger", 3, "ledger")
	s.enqueue("late", 4, "billing,ledger")
	s.enqueue("everything", 5, "")

	s.requireRead("queue.txt", s.must("queue", "--timeout", "2m"))
	s.requireRead("queue.json", s.must("queue", "--timeout", "2m", "-o", "json"))
	var explained strings.Builder
	for _, name := range []string{"orders", "shop-hourly", "web", "ledger", "late", "everything"} {
		explained.WriteString("$ cleat queue explain " + name + "\n" + s.must("queue", "explain", "--timeout", "2m", name) +
			"\n")
	}
	s.requireRead("explain.txt", explained.String())
	s.requireRead("explain.json", s.must("queue", "explain", "--timeout", "2m", "web", "-o", "json"))
	s.requireRead("describe.txt", s.must("backup", "describe", "web"))
	var described struct {
		QueueWait velerov1.QueueWait `json:"queueWait"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.must("backup", "describe", "web", "-o", "json")), &described))
	require.Equal(t, []string{"shop-hourly"}, described.QueueWait.Blockers)
	s.requireRead("get.txt", regexp.MustCompile(`\d+d\b`).ReplaceAllString(s.must("backup", "get"), "<age>"))
	s.requireRead("kubectl.txt", s.kubectlGet())
	_, stderr, err := s.run("queue", "explain", "stranger")
	require.Error(t, err)
	require.Contains(t, stderr, `backups.velero.io "stranger" not found`)

	simulate := exec.CommandContext(t.Context(), cleat(t), "queue", "simulate", "-f", "-", "--concurrent-backups", "2")
	simulate.Stdin = strings.NewReader(s.must("backup", "get", "-o", "yaml"))
	simulated, err := simulate.CombinedOutput()
	require.NoError(t, err, "%s", simulated)
	s.requireRead("simulate.txt", string(simulated))

	s.checkLive()
	require.Equal(t, empty, s.must("queue", "--timeout", "2m"))

	// Without a server, the commands show the Backups only.
	require.NoError(t, server.stop())
	require.Regexp(t, `^The number of slots is not known: no answer within 100ms: is the server running, .*\nNo backup is running or waiting\.\n$`,
		s.must("queue", "--timeout", "100ms"))
}

// checkLive ends the running backups one after the other, and checks the printed changes.
func (s *site) checkLive() {
	t := s.t
	text, documents := s.follow("queue"), s.follow("queue", "-o", "json")
	text.until("everything: Queued")
	documents.until(`"name":"everything"`)
	s.requireRead("follow.txt", strings.Join(text.shown, "\n")+"\n")

	s.endBackup("mail")
	text.until("ledger: PartiallyFailed") // its namespace does not exist; it waited only for the limit
	for _, line := range []string{"mail: Completed", "ledger: ReadyToStart", "ledger: InProgress"} {
		require.Contains(t, text.shown, line)
	}
	require.False(t, slices.ContainsFunc(text.shown, func(line string) bool {
		return strings.HasPrefix(line, "late: InProgress") || strings.HasPrefix(line, "shop-hourly: ReadyToStart")
	}), "orders blocks them")
	require.NoError(t, s.client.Delete(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "everything"}}))
	text.until("everything: deleted")
	s.endBackup("orders")
	for _, last := range []string{"web: PartiallyFailed", "late: PartiallyFailed"} {
		if !slices.Contains(text.shown, last) {
			text.until(last)
		}
	}
	text.interrupt()

	last := documents.until(`"name":"web","phase":"PartiallyFailed"`)
	documents.interrupt()
	decoder := json.NewDecoder(bytes.NewReader([]byte(last)))
	decoder.DisallowUnknownFields()
	var change struct {
		APIVersion, Kind, Name, Phase string
		Time, Since                   metav1.Time
	}
	require.NoError(t, decoder.Decode(&change))
	require.Equal(t, []string{"cleat.dev/v1", "QueueChange", "web", "PartiallyFailed"},
		[]string{change.APIVersion, change.Kind, change.Name, change.Phase})
}

// TestAcceptQueue_WaitIsExplained has a backup wait for one, and then for another. The next server says again for which.
func TestAcceptQueue_WaitIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.inProgress("first", "one")
	s.inProgress("second", "two")
	server := s.serve("--concurrent-backups", "5")
	s.available()
	s.enqueue("b", 1, "one,two")
	wait, err := velerov1.QueueWaitOf(s.backup("b"))
	require.NoError(t, err)
	first, second := wait.Blockers[0], "second"
	if first == second {
		second = "first"
	}
	server.awaitLine("backup waits", "backup="+s.namespace+"/b", "with "+first)
	s.endBackup(first)
	server.awaitLine("backup waits", "backup="+s.namespace+"/b", "with "+second)
	server.kill()
	server = s.serve("--concurrent-backups", "5")
	server.awaitLine("backup waits", "backup="+s.namespace+"/b", "position=1", "with "+second, "since=20")
	s.endBackup(second)
	s.awaitEnd("b")
}
