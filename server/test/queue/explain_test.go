package queue_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// inProgress creates a backup that runs until the test ends it: no server has started it.
func inProgress(s *site.Site, name string, namespaces ...string) {
	s.T.Helper()
	createInProgress(s, &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: namespaces},
		Status: velerov1.BackupStatus{StartTimestamp: new(metav1.Now()), Progress: &velerov1.BackupProgress{TotalItems: 9,
			ItemsBackedUp: 4}},
	})
}

// endBackup ends a backup of inProgress.
func endBackup(s *site.Site, name string) {
	s.T.Helper()
	var b velerov1.Backup
	require.NoError(s.T, s.Client.Get(s.T.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name}, &b))
	before := b.DeepCopy()
	b.Status.Phase, b.Status.CompletionTimestamp = velerov1.BackupPhaseCompleted, new(metav1.Now())
	require.NoError(s.T, s.Client.Patch(s.T.Context(), &b, client.MergeFrom(before)))
}

// enqueue creates a backup with the command and waits for its position.
func enqueue(s *site.Site, name string, position int, namespaces string) {
	s.T.Helper()
	args := []string{"backup", "create", name}
	if namespaces != "" {
		args = append(args, "--include-namespaces", namespaces)
	}
	s.Must(args...)
	s.Eventually(name+" has its place", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, &b)
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
func requireRead(s *site.Site, name, text string) {
	s.T.Helper()
	text = strings.ReplaceAll(text, s.Namespace, "velero")
	text = timesRead.ReplaceAllString(agesRead.ReplaceAllString(text, "<age> ago"), "<time>")
	text = columnGaps.ReplaceAllString(text, "$1   ")
	path := filepath.Join("testdata", "queue", name)
	if *site.Update {
		require.NoError(s.T, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(s.T, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(s.T, err)
	require.Equal(s.T, string(want), text)
}

// kubectlGet returns the table of "kubectl get backups", which the API server makes, without the age.
func kubectlGet(s *site.Site) string {
	s.T.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(s.T, err)
	c, err := rest.HTTPClientFor(config)
	require.NoError(s.T, err)
	request, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet,
		config.Host+"/apis/velero.io/v1/namespaces/"+s.Namespace+"/backups", http.NoBody)
	require.NoError(s.T, err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := c.Do(request)
	require.NoError(s.T, err)
	defer answer.Body.Close()
	var shown metav1.Table
	require.NoError(s.T, json.NewDecoder(answer.Body).Decode(&shown))
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
	s := site.New(t, "cleat.dev/file")
	server := s.Serve("--concurrent-backups", "2")
	s.Available()
	empty := "0 of 2 slots in use; policy cleat.dev/namespace-overlap decides\nNo backup is running or waiting.\n"
	require.Equal(t, empty, s.Must("queue", "--timeout", "2m"))

	inProgress(s, "orders", "shop", "billing")
	s.Eventually("the first one is older", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: "orders"}, &b)
		return time.Since(b.CreationTimestamp.Time) > 1100*time.Millisecond, err
	})
	inProgress(s, "mail", "mail")
	enqueue(s, "shop-hourly", 1, "shop,web")
	enqueue(s, "web", 2, "web")
	enqueue(s, "ledger", 3, "ledger")
	enqueue(s, "late", 4, "billing,ledger")
	enqueue(s, "everything", 5, "")

	requireRead(s, "queue.txt", s.Must("queue", "--timeout", "2m"))
	requireRead(s, "queue.json", s.Must("queue", "--timeout", "2m", "-o", "json"))
	var explained strings.Builder
	for _, name := range []string{"orders", "shop-hourly", "web", "ledger", "late", "everything"} {
		explained.WriteString("$ cleat queue explain " + name + "\n" + s.Must("queue", "explain", "--timeout", "2m", name) +
			"\n")
	}
	requireRead(s, "explain.txt", explained.String())
	requireRead(s, "explain.json", s.Must("queue", "explain", "--timeout", "2m", "web", "-o", "json"))
	requireRead(s, "describe.txt", s.Must("backup", "describe", "web"))
	var described struct {
		QueueWait velerov1.QueueWait `json:"queueWait"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.Must("backup", "describe", "web", "-o", "json")), &described))
	require.Equal(t, []string{"shop-hourly"}, described.QueueWait.Blockers)
	requireRead(s, "get.txt", regexp.MustCompile(`\d+d\b`).ReplaceAllString(s.Must("backup", "get"), "<age>"))
	requireRead(s, "kubectl.txt", kubectlGet(s))
	_, stderr, err := s.Run("queue", "explain", "stranger")
	require.Error(t, err)
	require.Contains(t, stderr, `backups.velero.io "stranger" not found`)

	simulate := exec.CommandContext(t.Context(), site.Program(t), "queue", "simulate", "-f", "-",
		"--concurrent-backups", "2")
	simulate.Stdin = strings.NewReader(s.Must("backup", "get", "-o", "yaml"))
	simulated, err := simulate.CombinedOutput()
	require.NoError(t, err, "%s", simulated)
	requireRead(s, "simulate.txt", string(simulated))

	checkLive(s)
	require.Equal(t, empty, s.Must("queue", "--timeout", "2m"))

	// Without a server, the commands show the Backups only.
	require.NoError(t, server.Stop())
	require.Regexp(t, `^The number of slots is not known: no answer within 100ms: is the server running, .*\nNo backup is running or waiting\.\n$`,
		s.Must("queue", "--timeout", "100ms"))
}

// checkLive ends the running backups one after the other, and checks the printed changes.
func checkLive(s *site.Site) {
	t := s.T
	text, documents := s.Follow("queue"), s.Follow("queue", "-o", "json")
	text.Until("everything: Queued")
	documents.Until(`"name":"everything"`)
	requireRead(s, "follow.txt", strings.Join(text.Shown, "\n")+"\n")

	endBackup(s, "mail")
	text.Until("ledger: PartiallyFailed") // its namespace does not exist; it waited only for the limit
	for _, line := range []string{"mail: Completed", "ledger: ReadyToStart", "ledger: InProgress"} {
		require.Contains(t, text.Shown, line)
	}
	require.False(t, slices.ContainsFunc(text.Shown, func(line string) bool {
		return strings.HasPrefix(line, "late: InProgress") || strings.HasPrefix(line, "shop-hourly: ReadyToStart")
	}), "orders blocks them")
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "everything"}}))
	text.Until("everything: deleted")
	endBackup(s, "orders")
	for _, last := range []string{"web: PartiallyFailed", "late: PartiallyFailed"} {
		if !slices.Contains(text.Shown, last) {
			text.Until(last)
		}
	}
	text.Interrupt()

	last := documents.Until(`"name":"web","phase":"PartiallyFailed"`)
	documents.Interrupt()
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

// TestAcceptQueue_WaitIsExplained has a backup that waits for one, and then for another. The next server reports again
// for which.
func TestAcceptQueue_WaitIsExplained(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	inProgress(s, "first", "one")
	inProgress(s, "second", "two")
	server := s.Serve("--concurrent-backups", "5")
	s.Available()
	enqueue(s, "b", 1, "one,two")
	wait, err := velerov1.QueueWaitOf(s.Backup("b"))
	require.NoError(t, err)
	first, second := wait.Blockers[0], "second"
	if first == second {
		second = "first"
	}
	server.AwaitLine("backup waits", "backup="+s.Namespace+"/b", "with "+first)
	endBackup(s, first)
	server.AwaitLine("backup waits", "backup="+s.Namespace+"/b", "with "+second)
	server.Kill()
	server = s.Serve("--concurrent-backups", "5")
	server.AwaitLine("backup waits", "backup="+s.Namespace+"/b", "position=1", "with "+second, "since=20")
	endBackup(s, second)
	s.AwaitEnd("b")
}
