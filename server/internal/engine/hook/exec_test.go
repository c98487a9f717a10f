package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestCommandsRunInContainers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.running(t, "web", nil)
	for name, test := range map[string]struct {
		container, script string
		timeout           time.Duration
		stdout, stderr    string
		err               string
	}{
		"both outputs": {container: "side", script: `echo "$CONTAINER of $POD_NAME"; echo oops >&2`,
			stdout: "side of web\n", stderr: "oops\n"},
		"an exit code": {container: "app", script: "echo first; echo why >&2; echo; exit 7",
			stdout: "first\n\n", stderr: "why\n", err: "exit code 7: why"},
		"no output": {container: "app", script: "exit 3", err: "exit code 3"},
		"100 MB": {container: "app",
			script: "echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end", stdout: "bytes are left out"},
		"a command that hangs": {container: "app", script: "echo started; sleep 1000",
			timeout: 10 * time.Second, stdout: "started\n", err: "not done in time: the limit is 10s"},
		"a child that keeps the output open": {container: "app", script: "sleep 1000 & echo forked",
			timeout: 10 * time.Second, stdout: "forked\n", err: "not done in time"},
		"a child that closes the output": {container: "app", script: "sleep 1000 >/dev/null 2>&1 & echo forked",
			stdout: "forked\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.timeout == 0 {
				test.timeout = 5 * time.Minute
			}
			result, err := s.executor.run(t.Context(), call{
				namespace: s.namespace, pod: "web", container: test.container, command: []string{"sh", "-c", test.script},
				timeout: test.timeout,
			})
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
			if strings.HasSuffix(test.stdout, "\n") || test.stdout == "" {
				require.Equal(t, test.stdout, result.stdout.String())
			} else {
				text := result.stdout.String()
				require.Contains(t, text, test.stdout)
				require.Less(t, len(text), 3*kept)
				require.True(t, strings.HasPrefix(text, "begin\n") && strings.HasSuffix(text, "\nend\n"), "%q", text)
			}
			require.Equal(t, test.stderr, result.stderr.String())
		})
	}
}

func TestCommandsOfMissingPodsAndContainersFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.running(t, "web", nil)
	_, err := s.executor.run(t.Context(), call{namespace: s.namespace, pod: "none", container: "app",
		command: []string{"true"}, timeout: time.Minute})
	require.ErrorContains(t, err, `pods "none" not found`)
	_, err = s.executor.run(t.Context(), call{namespace: s.namespace, pod: "web", container: "none",
		command: []string{"true"}, timeout: time.Minute})
	require.ErrorContains(t, err, "container none is not valid")
}

func TestCommandsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.running(t, "web", nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	time.AfterFunc(time.Second, func() { cancel(stopped) })
	_, err := s.executor.run(ctx, call{namespace: s.namespace, pod: "web", container: "app",
		command: []string{"sleep", "1000"}, timeout: time.Hour})
	require.ErrorIs(t, err, stopped)
}

// proxy returns the address of a proxy for the API server.
func (s *site) proxy(t *testing.T, answer func(http.ResponseWriter, *http.Request) (answered bool)) *Executor {
	t.Helper()
	target, err := url.Parse(s.config.Host)
	require.NoError(t, err)
	config := rest.CopyConfig(s.config)
	config.NextProtos = []string{"http/1.1"} // can be upgraded
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	x, err := NewExecutor(&rest.Config{Host: server.URL}, time.Minute)
	require.NoError(t, err)
	return x
}

func TestSPDYServesWhereWebSocketsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.running(t, "web", nil)
	var protocols [2]atomic.Int64
	x := s.proxy(t, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			protocols[0].Add(1)
			http.Error(w, "no WebSockets here", http.StatusForbidden)
			return true
		}
		protocols[1].Add(1)
		return false
	})
	result, err := x.run(t.Context(), call{namespace: s.namespace, pod: "web", container: "app",
		command: []string{"echo", "hello"}, timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "hello\n", result.stdout.String())
	require.Equal(t, []int64{1, 1}, []int64{protocols[0].Load(), protocols[1].Load()}, "requests by WebSocket and by SPDY")
	_, err = x.run(t.Context(), call{namespace: s.namespace, pod: "web", container: "app",
		command: []string{"sh", "-c", "exit 4"}, timeout: time.Minute})
	require.EqualError(t, err, "exit code 4")
	_, err = x.run(t.Context(), call{namespace: s.namespace, pod: "web", container: "app",
		command: []string{"sleep", "1000"}, timeout: time.Second})
	require.ErrorIs(t, err, errTimeout)
}

func TestRequestsThatCannotHaveArrivedAreRepeated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.running(t, "web", nil)
	var n atomic.Int64
	x := s.proxy(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1) > 3 {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`)
		return true
	})
	_, err := x.run(t.Context(), call{namespace: s.namespace, pod: "web", container: "app", command: does("once"),
		timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, []string{"once"}, s.did(t, "web"))
}

func TestOutputKeepsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, kept, kept + 1, 2 * kept, 2*kept + 1, 5*kept + 17} {
		for _, piece := range []int{1, 7, kept, kept + 3, 10 * kept} {
			var all strings.Builder
			for i := range size {
				all.WriteByte(byte('a' + i%23))
			}
			var o output
			for rest := all.String(); rest != ""; {
				n := min(piece, len(rest))
				_, err := o.Write([]byte(rest[:n]))
				require.NoError(t, err)
				rest = rest[n:]
			}
			want := all.String()
			if size > 2*kept {
				want = fmt.Sprintf("%s\n... %d bytes are left out ...\n%s", want[:kept], size-2*kept, want[size-kept:])
			}
			require.Equal(t, want, o.String(), "%d bytes in pieces of %d", size, piece)
		}
	}
}
