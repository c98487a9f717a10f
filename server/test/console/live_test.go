package console_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/site"
)

// steps lets the server write the phases of a backup one after the other.
type steps struct {
	of  string // the backup
	may map[string]chan struct{}
}

var phase = regexp.MustCompile(`"phase":"(\w+)"`)

// hold holds a write of a phase until the test allows it. It is the Answer of a gate.
func (s *steps) hold(_ http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/backups/"+s.of) {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if found := phase.FindSubmatch(body); err == nil && found != nil && s.may[string(found[1])] != nil {
		select {
		case <-s.may[string(found[1])]:
		case <-r.Context().Done():
		}
	}
	return false
}

// seen is a script that notes when the page of a run shows each phase, in milliseconds.
const seen = `window.seen = {};
(() => {
	const look = () => {
		const phase = document.querySelector("#page .mood")?.innerText;
		if (phase) window.seen[phase] ??= Date.now();
	};
	look();
	new MutationObserver(look).observe(document.getElementById("page"),
		{subtree: true, childList: true, characterData: true});
})()`

// TestAcceptConsole_Live has a backup go through the queue on the screen, a phase after the other. What somebody has
// opened stays open, and the end of the console is said.
func TestAcceptConsole_Live(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	order := []string{"Queued", "ReadyToStart", "InProgress", "Finalizing", "Completed"}
	all := &steps{"waits", map[string]chan struct{}{}}
	for _, phase := range order {
		all.may[phase] = make(chan struct{})
	}
	g.Answer = all.hold
	namespace := s.Workload(3)
	s.Serve("--concurrent-backups", "1")
	s.Available()
	held := hold(s, "held")
	c := open(t, s)
	queue := browse(t, c)
	queue.settle("/queue")
	queue.shows("held")
	s.Must("backup", "create", "waits", "--include-namespaces", namespace)
	run := queue.another()
	run.settle("/backups/waits")
	run.shows("New")
	run.do(command{Do: "eval", Script: seen})
	run.do(command{Do: "eval", Script: `document.querySelectorAll("#page details").forEach(d => d.open = true)`})

	for _, phase := range order {
		if phase == "ReadyToStart" {
			queue.shows("the limit of 1 running backup is reached")
			run.shows("why it waits")
			require.Equal(t, "1", eval[string](queue, `[...document.querySelectorAll("#page tbody tr")].find(
				row => row.innerText.includes("waits")).cells[0].innerText`), "its position")
			end(s, held)
		}
		began := time.Now()
		close(all.may[phase])
		run.until(fmt.Sprintf("window.seen[%q]", phase))
		took := eval[float64](run, fmt.Sprintf("window.seen[%q]", phase)) - float64(began.UnixMilli())
		t.Logf("%s was on the screen after %.0f ms", phase, took)
		require.Less(t, took, 20_000.0, phase)
		switch phase {
		case "Queued", "ReadyToStart", "InProgress":
			queue.shows(phase)
		case "Completed":
			queue.shows("No backup is running or waiting.")
		}
	}
	require.True(t, eval[bool](run, `[...document.querySelectorAll("#page details")].some(d => d.open)`))
	require.True(t, eval[bool](run, `document.getElementById("connection").hidden`))

	process, err := os.FindProcess(c.pid)
	require.NoError(t, err)
	require.NoError(t, process.Signal(os.Interrupt))
	for _, b := range []*browser{queue, run} { // the errors of the connection are in their logs
		b.try(command{Do: "await", Script: `!document.getElementById("connection").hidden`})
	}
}
