package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// faultyServer returns a connection to the API server through a proxy that calls intercept for each request. intercept
// returns true if it has sent the reply itself. attempt counts the requests for the same URL from 1.
func faultyServer(
	t *testing.T, config *rest.Config, intercept func(w http.ResponseWriter, r *http.Request, attempt int) bool,
) *rest.Config {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	var mu sync.Mutex
	attempts := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		attempts[r.URL.String()]++
		attempt := attempts[r.URL.String()]
		mu.Unlock()
		if !intercept(w, r, attempt) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1, WarningHandler: rest.NoWarnings{}}
}

// refuse replies with a Status. more holds members of its metadata.
func refuse(w http.ResponseWriter, code int, reason, more string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{%s},"status":"Failure","reason":%q,"code":%d,"message":"test"}`, more, reason, code)
	return true
}

// hangUp closes the connection without a reply, or after half of one.
func hangUp(w http.ResponseWriter, half string) bool {
	if half != "" {
		_, _ = io.WriteString(w, half)
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

func TestAcceptBackup_ApiServerFaults(t *testing.T) {
	t.Parallel()
	config := fixtureWorld(t)
	all := everything()
	ends := func(r *http.Request, resource string) bool { return strings.HasSuffix(r.URL.Path, "/"+resource) }
	first := func(attempt int) bool { return attempt <= 2 }
	var expired atomic.Int32
	continued := func(r *http.Request) bool { return r.URL.Query().Get("continue") != "" }

	for name, row := range map[string]struct {
		intercept func(w http.ResponseWriter, r *http.Request, attempt int) bool
		pageSize  int
		want      set
		errors    string // part of the only error
		warnings  string // part of the only warning
	}{
		"storm of 429": {intercept: func(w http.ResponseWriter, _ *http.Request, attempt int) bool {
			return attempt == 1 && refuse(w, http.StatusTooManyRequests, "TooManyRequests", "")
		}, want: all},
		"429 that says when to come back": {intercept: func(w http.ResponseWriter, r *http.Request, attempt int) bool {
			if !ends(r, "secrets") || !first(attempt) {
				return false
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}, want: all},
		"storm of 409": {intercept: func(w http.ResponseWriter, _ *http.Request, attempt int) bool {
			return attempt == 1 && refuse(w, http.StatusConflict, "Conflict", "")
		}, want: all},
		"503, then 403 while the server starts": {intercept: func(w http.ResponseWriter, r *http.Request, attempt int) bool {
			switch {
			case !ends(r, "configmaps") && !ends(r, "secrets") && !ends(r, "namespaces"):
				return false
			case attempt == 1:
				return refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "")
			default:
				return attempt == 2 && refuse(w, http.StatusForbidden, "Forbidden", "")
			}
		}, want: all},
		"connections cut": {intercept: func(w http.ResponseWriter, _ *http.Request, attempt int) bool {
			return attempt == 1 && hangUp(w, "")
		}, want: all},
		"lists cut in the middle": {intercept: func(w http.ResponseWriter, r *http.Request, attempt int) bool {
			return ends(r, "configmaps") && first(attempt) && hangUp(w, `{"kind":"ConfigMapList","items":[{"metadata":{`)
		}, want: all},
		"pages that expire and continue in a newer snapshot": {pageSize: 2,
			intercept: func(w http.ResponseWriter, r *http.Request, attempt int) bool {
				if !continued(r) || attempt > 1 {
					return false
				}
				return refuse(w, http.StatusGone, "Expired", fmt.Sprintf(`"continue":%q`, r.URL.Query().Get("continue")))
			}, want: all},
		"pages that expire without a token to continue": {pageSize: 5, intercept: func(w http.ResponseWriter, r *http.Request,
			_ int) bool {
			return ends(r, "configmaps") && continued(r) && expired.Add(1) <= 3 && refuse(w, http.StatusGone, "Expired", "")
		}, want: all},
		"pages that always expire": {pageSize: 2, intercept: func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return ends(r, "clusterroles") && continued(r) && refuse(w, http.StatusGone, "Expired", "")
		}, want: all.without(all.kinds("ClusterRole")), errors: "cannot list clusterroles.rbac.authorization.k8s.io"},
		"a forbidden resource": {intercept: func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return ends(r, "secrets") && refuse(w, http.StatusForbidden, "Forbidden", "")
		}, want: all.without(all.kinds("Secret")), errors: " resource: /secrets message: /cannot list secrets"},
		"a resource that is no longer served": {intercept: func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return ends(r, "widgets") && refuse(w, http.StatusNotFound, "NotFound", "")
		}, want: all.without(all.kinds("Widget")), warnings: "the API server no longer serves the resource"},
		"a reply that is not a list": {intercept: func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if !ends(r, "services") {
				return false
			}
			_, _ = io.WriteString(w, "<html>gateway</html>")
			return true
		}, want: all.without(all.kinds("Service")), errors: "invalid JSON at byte 0"},
		"objects without a name": {intercept: func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if !ends(r, "services") {
				return false
			}
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"namespace":"shop-prod"}}]}`)
			return true
		}, want: all.without(all.kinds("Service")), errors: "metadata.name is missing"},
		"one resource that always fails": {intercept: func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return ends(r, "events") && refuse(w, http.StatusInternalServerError, "InternalError", "")
		}, want: all.without(all.kinds("Event")), errors: "gave up after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deps := depsFor(t, faultyServer(t, config, row.intercept))
			deps.PageSize = row.pageSize
			if strings.Contains(row.errors, "gave up") {
				deps.RetryFor = 300 * time.Millisecond
			}
			b := take(t.Context(), t, deps, backup.Request{Backup: newBackup(nil)})
			require.Equal(t, row.want.ids(), b.fixtureIDs())
			requireOne := func(part string, messages []string) {
				if part == "" {
					require.Empty(t, messages)
					return
				}
				require.Len(t, messages, 1, "%q", messages)
				require.Contains(t, messages[0], part)
			}
			errs := b.Results.Errors
			requireOne(row.errors, append(append(errs.Velero, errs.Cluster...), errs.Namespaces["shop-prod"]...))
			warnings := b.Results.Warnings
			requireOne(row.warnings, append(warnings.Velero, warnings.Cluster...))
		})
	}
}

func TestAcceptBackup_ApiServerFaults_ObjectsDeletedBetweenListAndWrite(t *testing.T) {
	t.Parallel()
	config := connect(t, plane.Get(t).Kubeconfig)
	ctx := t.Context()
	namespace := fixtureObject{"namespaces", "v1", "Namespace", "", "vanishing", nil, ""}
	create(ctx, t, config, namespace)
	object := fixtureObject{"configmaps", "v1", "ConfigMap", "vanishing", "", nil, `"data":{"k":"v"}`}
	var want []string
	for n := range 20 {
		object.name = fmt.Sprintf("c-%02d", n)
		create(ctx, t, config, object)
		want = append(want, "vanishing/"+object.name)
	}
	deleter := &testAction{
		name: "example.com/deleter", selector: framework.ResourceSelector{IncludedResources: []string{"cm"}},
		execute: func(item []byte) (*backupitemaction.Result, error) {
			o := object
			_, o.name, _ = strings.Cut(identity(item), "/")
			if strings.HasPrefix(o.name, "c-") {
				if err := resourceClient(t, config, o).Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil {
					return nil, err
				}
			}
			return &backupitemaction.Result{Item: item}, nil
		},
	}
	b := take(ctx, t, depsFor(t, config),
		backup.Request{Backup: only("vanishing"), Actions: []backupitemaction.Action{deleter}})
	require.Zero(t, b.Errors, b.Results)
	require.Subset(t, slices.Collect(b.ResourceList.Of("v1/ConfigMap")), want, "as they were when they were listed")
}

// onWarning returns a logger that calls do for each warning.
func onWarning(do func()) hclog.Logger {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Warn})
	log.RegisterSink(&warningSink{do})
	return log
}

type warningSink struct{ do func() }

func (s *warningSink) Accept(_ string, level hclog.Level, _ string, _ ...any) {
	if level == hclog.Warn {
		s.do()
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAcceptBackup_ApiServerFaults_ServerAwayInMidBackup(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	cluster, err := controlplane.Start(t.Context(), controlplane.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	config := connect(t, cluster.Kubeconfig)
	ctx := t.Context()
	create(ctx, t, config, fixtureObject{"namespaces", "v1", "Namespace", "", "many", nil, ""})
	var want []string
	for n := range 300 {
		o := fixtureObject{"configmaps", "v1", "ConfigMap", "many", fmt.Sprintf("c-%03d", n), nil, `"data":{"k":"v"}`}
		create(ctx, t, config, o)
		want = append(want, "many/"+o.name)
	}
	// Lists are read ahead: most pages of the ConfigMaps wait until the server is gone.
	var requests atomic.Int32
	var away atomic.Pointer[chan struct{}]
	held := func() { requests.Store(0); away.Store(new(make(chan struct{}))) }
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/configmaps") && requests.Add(1) > 10 {
				select {
				case <-*away.Load():
				case <-r.Context().Done():
				}
			}
			return next.RoundTrip(r)
		})
	})
	held()
	deps := depsFor(t, config)
	deps.PageSize = 10

	// The server is killed after some objects, and comes back once a request has failed.
	failing := make(chan struct{}, 1)
	fails := func() {
		select {
		case failing <- struct{}{}:
		default:
		}
	}
	var started sync.WaitGroup
	var once sync.Once
	killed := func(done, _ int) {
		if done >= 50 {
			once.Do(func() {
				require.NoError(t, cluster.Do(ctx, "kill", controlplane.APIServer))
				close(*away.Load())
				started.Go(func() {
					<-failing
					if err := cluster.Do(ctx, "start", controlplane.APIServer); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
	b := take(ctx, t, deps, backup.Request{Backup: newBackup(nil), Progress: killed, Log: onWarning(fails)})
	started.Wait()
	require.Zero(t, b.Errors, b.Results)
	require.Subset(t, slices.Collect(b.ResourceList.Of("v1/ConfigMap")), want)

	// It is killed again and stays away: the backup ends, with an error for each list that is missing.
	deps.RetryFor = 200 * time.Millisecond
	once = sync.Once{}
	held()
	killedForGood := func(done, _ int) {
		if done >= 50 {
			once.Do(func() {
				require.NoError(t, cluster.Do(ctx, "kill", controlplane.APIServer))
				close(*away.Load())
			})
		}
	}
	b = take(ctx, t, deps, backup.Request{Backup: newBackup(nil), Progress: killedForGood})
	require.GreaterOrEqual(t, b.Items, 50)
	require.Positive(t, b.Errors)
	require.Contains(t, strings.Join(b.Results.Errors.Cluster, "\n"),
		"cannot list configmaps, the objects that were not read are missing in the backup")

	// Without any server there is no backup.
	_, err = backup.Run(ctx, deps, backup.Request{Backup: newBackup(nil), Log: discard()}, io.Discard)
	require.ErrorContains(t, err, "discover the resources of the API server")
}

func TestLargePagesAreReadInSmallerOnes(t *testing.T) {
	t.Parallel()
	const objects = 22
	config := connect(t, plane.Get(t).Kubeconfig)
	create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", "big", nil, ""})
	var mu sync.Mutex
	limits := map[string]bool{}
	// In the shared cluster, objects of this size would be in every backup of the other tests.
	deps := depsFor(t, faultyServer(t, config, func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if !strings.HasSuffix(r.URL.Path, "/big/configmaps") {
			return false
		}
		query := r.URL.Query()
		mu.Lock()
		limits[query.Get("limit")] = true
		mu.Unlock()
		limit, _ := strconv.Atoi(query.Get("limit"))
		from, _ := strconv.Atoi(query.Get("continue"))
		to, next := min(from+limit, objects), ""
		if to < objects {
			next = strconv.Itoa(to)
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":%q},"items":[`, next)
		for n := from; n < to; n++ {
			_, _ = fmt.Fprintf(w, `%s{"metadata":{"namespace":"big","name":"c-%02d","uid":"u-%[2]d"},"data":{"k":"%s"}}`,
				strings.Repeat(",", min(n-from, 1)), n, strings.Repeat("x", 900<<10))
		}
		_, _ = io.WriteString(w, "]}")
		return true
	}))
	deps.PageSize = 40
	b := take(t.Context(), t, deps, backup.Request{Backup: only("big")})
	require.Zero(t, b.Errors, b.Results)
	require.Len(t, slices.Collect(b.ResourceList.Of("v1/ConfigMap")), objects)
	require.Equal(t, map[string]bool{"40": true, "10": true}, limits)
}

type brokenSink struct{ left int }

func (s *brokenSink) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		return 0, errors.New("upload refused")
	}
	return len(p), nil
}

func TestFailingSinkEndsTheBackupWithItsError(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	for _, left := range []int{0, 5000} {
		_, err := backup.Run(t.Context(), deps, backup.Request{Backup: newBackup(nil), Log: discard()},
			&brokenSink{left: left})
		require.ErrorContains(t, err, "upload refused")
	}
}

func TestCancelledBackupEnds(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	_, err := backup.Run(ctx, deps, backup.Request{Backup: newBackup(nil), Log: discard(), Progress: func(done, _ int) {
		if done >= 20 {
			cancel()
		}
	}}, &out)
	require.ErrorIs(t, err, context.Canceled)
	gz, err := gzip.NewReader(&out)
	if err == nil {
		_, err = io.Copy(io.Discard, gz)
	}
	require.Error(t, err, "what was written cannot be mistaken for a backup")
}
