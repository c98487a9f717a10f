package runlog_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

var pod = runlog.Item{Resource: "pods", Namespace: "shop", Name: "web-0", Done: 3, Total: 40}

func TestItemsHaveLinesInBothFormats(t *testing.T) {
	t.Parallel()
	l := newLog(t, runlog.Options{}, "backup", "velero/nightly: 1")
	runlog.BackedUp(l.Logger(), pod)
	runlog.BackedUp(l.Logger(), runlog.Item{Resource: "clusterroles.rbac.authorization.k8s.io", Name: "system:\"x",
		Done: 4, Total: 40})
	require.Equal(t, `time="2026-01-02T02:04:05Z" level=info msg="Backed up 3 items out of an estimated total of 40 (estimate will change throughout the backup)" `+
		`backup="velero/nightly: 1" name=web-0 namespace=shop resource=pods`+"\n"+
		`time="2026-01-02T02:04:05Z" level=info msg="Backed up 4 items out of an estimated total of 40 (estimate will change throughout the backup)" `+
		`backup="velero/nightly: 1" name="system:\"x" resource=clusterroles.rbac.authorization.k8s.io`+"\n", text(t, l))

	l = newLog(t, runlog.Options{JSON: true}, "restore", "velero/r")
	runlog.Restored(l.Logger(), runlog.Item{Resource: "pods", Namespace: "shop", Name: "a\"\n<", Done: 1, Total: 2})
	require.JSONEq(t, `{"time":"2026-01-02T02:04:05Z","level":"info","restore":"velero/r","resource":"pods","namespace":"shop","name":"a\"\n<",
		"msg":"Restored 1 items out of an estimated total of 2 (estimate will change throughout the restore)"}`, text(t, l))
}

// TestItemLinesAreLikeOthers compares the line of an item with the one that the general way writes.
func TestItemLinesAreLikeOthers(t *testing.T) {
	t.Parallel()
	for _, isJSON := range []bool{false, true} {
		l := newLog(t, runlog.Options{JSON: isJSON}, "backup", "velero/b")
		runlog.BackedUp(l.Logger(), pod)
		l.Logger().Info("Backed up 3 items out of an estimated total of 40 (estimate will change throughout the backup)",
			"resource", pod.Resource, "namespace", pod.Namespace, "name", pod.Name)
		lines := strings.Split(strings.TrimSpace(text(t, l)), "\n")
		require.Len(t, lines, 2)
		if !isJSON {
			require.Equal(t, lines[1], lines[0])
			continue
		}
		require.True(t, json.Valid([]byte(lines[0])), lines[0])
		require.JSONEq(t, lines[1], lines[0])
	}
}

// TestItemsInTheLogOfTheServer has one line of a second in the log of the server, and all in that of the run.
func TestItemsInTheLogOfTheServer(t *testing.T) {
	t.Parallel()
	var server strings.Builder
	tee := hclog.New(&hclog.LoggerOptions{Output: &server, Level: hclog.Info, DisableTime: true})
	now := clock()
	l, err := runlog.New(runlog.Options{Dir: t.TempDir(), Now: func() time.Time { return now }, Tee: tee}, "backup",
		"velero/b")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	for done := range 5 {
		runlog.BackedUp(l.Logger(), runlog.Item{Resource: "pods", Namespace: "shop", Name: "web-0", Done: done, Total: 40})
		now = now.Add(400 * time.Millisecond)
	}
	const line = "[INFO]  Backed up %d items out of an estimated total of 40 (estimate will change throughout the " +
		"backup): backup=velero/b resource=pods namespace=shop name=web-0\n"
	require.Equal(t, fmt.Sprintf(line+line, 0, 3), server.String())
	require.Equal(t, 5, strings.Count(text(t, l), "name=web-0"))

	quiet := newLog(t, runlog.Options{Tee: hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Warn})})
	runlog.BackedUp(quiet.Logger(), pod)
	require.Empty(t, text(t, quiet), "--log-level warn")

	runlog.BackedUp(hclog.New(&hclog.LoggerOptions{Output: &server, Level: hclog.Info}), pod)
	require.Contains(t, server.String(), "name=web-0", "a logger of another kind gets the line like any")
}

func TestItemLinesAllocateNothing(t *testing.T) { //nolint:paralleltest // the allocations of all goroutines are counted
	l, err := runlog.New(runlog.Options{Dir: t.TempDir(), Now: time.Now,
		Tee: hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Info})}, "backup", "velero/b")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	log := l.Logger()
	require.Zero(t, testing.AllocsPerRun(1000, func() { runlog.BackedUp(log, pod) }))
}

// BenchmarkItem is the cost of one line of an item, its compression included.
func BenchmarkItem(b *testing.B) {
	for name, isJSON := range map[string]bool{"text": false, "json": true} {
		b.Run(name, func(b *testing.B) {
			l, err := runlog.New(runlog.Options{Dir: b.TempDir(), JSON: isJSON, Now: time.Now, Tee: hclog.NewNullLogger()},
				"backup", "velero/b")
			require.NoError(b, err)
			defer func() { require.NoError(b, l.Close()) }()
			log := l.Logger()
			log.SetLevel(hclog.Info)
			item := pod
			b.ReportAllocs()
			for b.Loop() {
				item.Done++
				runlog.BackedUp(log, item)
			}
		})
	}
}
