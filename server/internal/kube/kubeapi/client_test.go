package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// replyWith replies with a Status. more holds members of "details".
func replyWith(code int, reason, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"details":{%s}}`,
			reason, code, more)
	}
}

func succeed(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) }

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func replyHalf(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"ok"`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// serve starts a server that runs one handler for each request, and the last one for all others. It returns
// a client and the number of requests so far.
func serve(t *testing.T, retryFor time.Duration, handlers ...http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(requests.Add(1))
		handlers[min(n, len(handlers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	client, err := New(&rest.Config{Host: server.URL + "/prefix", QPS: -1}, hclog.NewNullLogger(), retryFor)
	require.NoError(t, err)
	return client, &requests
}

func TestDoSendsWhatTheRequestSays(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	body := make(chan string, 1)
	client, _ := serve(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		seen <- r
		body <- string(data)
		succeed(w, r)
	})
	for name, tt := range map[string]struct {
		request Request
		want    string // method and URI
		content string
		accept  string
	}{
		"list": {Request{Resource: pods, Query: url.Values{"limit": {"5"}, "labelSelector": {"a in (b,c)"}}},
			"GET /prefix/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&limit=5", "", JSON},
		"list in one": {Request{Resource: pods, Namespace: "shop"}, "GET /prefix/api/v1/namespaces/shop/pods", "", JSON},
		"odd names": {Request{Resource: pods, Namespace: "a", Name: `system:x\y z?`},
			"GET /prefix/api/v1/namespaces/a/pods/system:x%5Cy%20z%3F", "", JSON},
		"group": {Request{Method: http.MethodPost, Resource: schema.GroupVersionResource{Group: "g.io", Version: "v1",
			Resource: "things"}, Body: []byte("{}"), ContentType: JSON, Accept: Metadata}, "POST /prefix/apis/g.io/v1/things",
			JSON, Metadata},
		"subresource": {Request{Method: http.MethodPut, Resource: pods, Namespace: "a", Name: "b", Subresource: "status",
			Body: []byte("{}"), ContentType: JSON}, "PUT /prefix/api/v1/namespaces/a/pods/b/status", JSON, JSON},
		"object patch": {Request{Method: http.MethodPatch, Resource: pods, Namespace: "a", Name: "b", Body: []byte("{}"),
			ContentType: Apply}, "PATCH /prefix/api/v1/namespaces/a/pods/b", Apply, JSON},
	} {
		reply, err := client.Do(t.Context(), tt.request)
		require.NoError(t, err, name)
		require.JSONEq(t, `{"ok":true}`, string(reply.Body), name)
		r := <-seen
		require.Equal(t, tt.want, r.Method+" "+r.URL.RequestURI(), name)
		require.Equal(t, tt.content, r.Header.Get("Content-Type"), name)
		require.Equal(t, tt.accept, r.Header.Get("Accept"), name)
		require.Equal(t, string(tt.request.Body), <-body, name)
	}
}

func TestDoRefusesNamesThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	client, requests := serve(t, time.Minute, succeed)
	for _, request := range []Request{
		{Resource: pods, Namespace: "a", Name: ".."},
		{Resource: pods, Namespace: "a", Name: "b/exec"},
		{Resource: pods, Namespace: "a", Name: "b%2Fexec"},
		{Resource: pods, Namespace: ".."},
		{Resource: schema.GroupVersionResource{Version: "v1", Resource: "../x"}},
		{Resource: schema.GroupVersionResource{Version: "..", Resource: "pods"}},
		{Resource: schema.GroupVersionResource{Group: "..", Version: "v1", Resource: "pods"}},
		{Resource: schema.GroupVersionResource{Resource: "pods"}},
	} {
		_, err := client.Do(t.Context(), request)
		require.ErrorContains(t, err, "invalid", "%+v", request)
	}
	require.Zero(t, requests.Load())
}

func TestDoRepeatsRequests(t *testing.T) {
	t.Parallel()
	const always = 99
	get, post := Request{Resource: pods, Namespace: "a", Name: "b"}, Request{Method: http.MethodPost, Resource: pods,
		Namespace: "a", Body: []byte("{}"), ContentType: JSON}
	with := func(r Request, change func(*Request)) Request { change(&r); return r }
	unavailable := replyWith(503, "ServiceUnavailable", "")
	forbidden := replyWith(403, "Forbidden", "")
	noPath := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", http.StatusNotFound) }
	for name, tt := range map[string]struct {
		request   Request
		fault     http.HandlerFunc
		times     int // of the fault, before success
		second    http.HandlerFunc
		attempts  int // in all; 0 means as many as the time allows
		fails     bool
		uncertain bool
	}{
		"no fault":              {request: get, fault: succeed, times: 1, attempts: 1},
		"connection cut":        {request: get, fault: hangUp, times: 2, attempts: 3, uncertain: true},
		"reply cut":             {request: get, fault: replyHalf, times: 2, attempts: 3, uncertain: true},
		"write, connection cut": {request: post, fault: hangUp, times: 1, attempts: 2, uncertain: true},
		"write that must not be made twice, cut": {request: with(post, func(r *Request) { r.Once = true }), fault: hangUp,
			times: always, attempts: 1, fails: true},
		"write that must not be made twice, 429": {request: with(post, func(r *Request) { r.Once = true }),
			fault: replyWith(429, "TooManyRequests", ""), times: 1, attempts: 2},
		"429": {request: post, fault: replyWith(429, "TooManyRequests", ""), times: 2, attempts: 3},
		"408": {request: get, fault: replyWith(408, "Timeout", ""), times: 1, attempts: 2, uncertain: true},
		"503": {request: post, fault: unavailable, times: 2, attempts: 3, uncertain: true},
		"502 of a proxy": {request: post,
			fault: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, times: 1,
			attempts: 2, uncertain: true},
		"504":        {request: post, fault: replyWith(504, "Timeout", ""), times: 1, attempts: 2, uncertain: true},
		"write, 500": {request: post, fault: replyWith(500, "InternalError", ""), times: 1, attempts: 2, uncertain: true},
		"501":        {request: get, fault: replyWith(501, "NotImplemented", ""), times: always, attempts: 1, fails: true},
		"read, 500 for good": {request: get, fault: replyWith(500, "InternalError", ""), times: always,
			fails: true, uncertain: true},
		"conflict":       {request: post, fault: replyWith(409, "Conflict", ""), times: 2, attempts: 3},
		"read, conflict": {request: get, fault: replyWith(409, "Conflict", ""), times: 1, attempts: 2},
		"conflict about a version": {request: with(post, func(r *Request) { r.Conditional = true }),
			fault: replyWith(409, "Conflict", ""), times: always, attempts: 1, fails: true},
		"exists already": {request: post, fault: replyWith(409, "AlreadyExists", ""), times: always,
			attempts: 1, fails: true},
		"forbidden":            {request: get, fault: forbidden, times: always, attempts: 1, fails: true},
		"forbidden, after 503": {request: get, fault: unavailable, times: 1, second: forbidden, attempts: 3, uncertain: true},
		"unauthorized, after no reply": {request: get, fault: hangUp, times: 1,
			second: replyWith(401, "Unauthorized", ""), attempts: 3, uncertain: true},
		"forbidden, namespace is terminating": {request: post, fault: unavailable, times: 1,
			second:   replyWith(403, "Forbidden", `"causes":[{"reason":"NamespaceTerminating"}]`),
			attempts: 2, fails: true, uncertain: true},
		"no such object": {request: get, fault: replyWith(404, "NotFound", `"name":"b"`), times: always,
			attempts: 1, fails: true},
		"no such path": {request: get, fault: noPath, times: always, attempts: 1, fails: true},
		"no such path, defined a moment ago": {request: with(post, func(r *Request) { r.New = func() bool { return true } }), fault: noPath,
			times: 2, attempts: 3},
		"no such path, after a restart": {request: get, fault: hangUp, times: 1, second: noPath, attempts: 3,
			uncertain: true},
		"no such object, after a restart": {request: get, fault: hangUp, times: 1,
			second: replyWith(404, "NotFound", `"name":"b"`), attempts: 2, fails: true, uncertain: true},
		"invalid": {request: post, fault: replyWith(422, "Invalid", ""), times: always, attempts: 1, fails: true},
		"too large": {request: with(get, func(r *Request) { r.MaxReply = 4 }), fault: succeed,
			times: always, attempts: 1, fails: true},
		"expired list (410 is for the caller)": {request: get, fault: replyWith(410, "Expired", ""), times: always,
			attempts: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handlers []http.HandlerFunc
			for range tt.times {
				handlers = append(handlers, tt.fault)
			}
			if tt.second != nil {
				handlers = append(handlers, tt.second)
			}
			if tt.fails && tt.second != nil {
				handlers = append(handlers, tt.second)
			}
			retryFor := time.Minute
			if tt.attempts == 0 {
				retryFor = 3 * time.Second // enough for three attempts on a busy machine
			}
			client, requests := serve(t, retryFor, append(handlers, succeed)...)
			reply, err := client.Do(t.Context(), tt.request)
			require.Equal(t, tt.fails, err != nil, "%v", err)
			require.Equal(t, tt.uncertain, reply.Uncertain)
			if tt.attempts == 0 {
				require.ErrorContains(t, err, "gave up after")
				require.Greater(t, requests.Load(), int32(2))
				return
			}
			require.EqualValues(t, tt.attempts, requests.Load())
		})
	}
}

func TestDoWaitsAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]http.HandlerFunc{
		"header, text": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		},
		"header, Status": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			replyWith(503, "ServiceUnavailable", "")(w, r)
		},
		"Status": replyWith(429, "TooManyRequests", `"retryAfterSeconds":1`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := serve(t, time.Minute, fault, succeed)
			start := time.Now()
			_, err := client.Do(t.Context(), Request{Resource: pods})
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), time.Second)
		})
	}
}

func TestDoReportsAServerThatIsAway(t *testing.T) {
	t.Parallel()
	client, requests := serve(t, 200*time.Millisecond, hangUp)
	_, err := client.Do(t.Context(), Request{Resource: pods})
	require.ErrorIs(t, err, ErrUnreachable)
	before := requests.Load()
	_, err = client.Do(t.Context(), Request{Resource: pods})
	require.ErrorIs(t, err, ErrUnreachable)
	require.Equal(t, before+1, requests.Load(), "further requests get one attempt")
}

func TestDoRecoversOnceTheServerAnswers(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	client, requests := serve(t, 200*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			replyWith(500, "InternalError", "")(w, r)
			return
		}
		succeed(w, r)
	})
	_, err := client.Do(t.Context(), Request{Resource: pods})
	require.ErrorContains(t, err, "gave up after")
	before := requests.Load()
	_, err = client.Do(t.Context(), Request{Resource: pods})
	require.ErrorContains(t, err, "gave up after")
	require.Equal(t, before+1, requests.Load(), "further requests get one attempt while all fail")
	broken.Store(false)
	_, err = client.Do(t.Context(), Request{Resource: pods})
	require.NoError(t, err)
	broken.Store(true)
	before = requests.Load()
	_, err = client.Do(t.Context(), Request{Resource: pods})
	require.Error(t, err)
	require.Greater(t, requests.Load(), before+1)
}

func TestDoEndsWithTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("the backup was deleted")
	ctx, cancel := context.WithCancelCause(t.Context())
	client, _ := serve(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		cancel(cause)
		replyWith(503, "ServiceUnavailable", "")(w, r)
	})
	_, err := client.Do(ctx, Request{Resource: pods})
	require.ErrorIs(t, err, cause)
}

func TestDoReadsIntoTheBuffer(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, time.Minute, replyHalf, succeed)
	buf := append(make([]byte, 0, 100), "old"...)
	reply, err := client.Do(t.Context(), Request{Resource: pods, Buffer: buf})
	require.NoError(t, err)
	require.JSONEq(t, `{"ok":true}`, string(reply.Body))
	require.Same(t, &buf[0], &reply.Body[0])
}

func TestRetryRepeatsOtherReads(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, time.Minute, succeed)
	calls := 0
	err := client.Retry(t.Context(), "discovery", func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("connection reset")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, calls)
}

func TestTransient(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{errors.New("connection refused"), true},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		{fmt.Errorf("get: %w", apierrors.NewServiceUnavailable("x")), true},
		{apierrors.NewTooManyRequests("x", 1), true},
		{apierrors.NewInternalError(errors.New("x")), true},
		{apierrors.NewTimeoutError("x", 1), true},
		{apierrors.NewConflict(pods.GroupResource(), "x", nil), false},
		{apierrors.NewForbidden(pods.GroupResource(), "x", nil), false},
		{fmt.Errorf("get: %w", context.Canceled), false},
		{context.DeadlineExceeded, false},
		{fmt.Errorf("%w: more than 5 bytes", ErrTooLarge), false},
	} {
		require.Equal(t, tt.want, Transient(tt.err), "%v", tt.err)
	}
}

func TestPauseNamesTheFailureWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause, failure := errors.New("the server stops"), errors.New("connection refused")
	cancel(cause)
	err := Pause(ctx, Backoff(), failure)
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, failure)
}

func TestBackoffGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	backoff := Backoff()
	first := backoff.Step()
	require.GreaterOrEqual(t, first, 50*time.Millisecond)
	require.Less(t, first, 80*time.Millisecond)
	for range 50 {
		backoff.Step()
	}
	require.GreaterOrEqual(t, backoff.Step(), 5*time.Second)
	require.Less(t, backoff.Step(), 8*time.Second)
}

func TestRequestNames(t *testing.T) {
	t.Parallel()
	apps := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	require.Equal(t, "GET deployments.apps shop/web", (&Request{Resource: apps, Namespace: "shop", Name: "web"}).String())
	require.Equal(t, "POST deployments.apps shop", (&Request{Method: "POST", Resource: apps, Namespace: "shop"}).String())
	require.Equal(t, "PUT nodes a status",
		(&Request{Method: "PUT", Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "a",
			Subresource: "status"}).String())
}
