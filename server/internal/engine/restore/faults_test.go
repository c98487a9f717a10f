package restore

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// proxy is a proxy between a restore and the API server that injects faults.
type proxy struct {
	*httptest.Server
	mu    sync.Mutex
	tries map[string]int
}

// fault handles a request, which is the n-th one with its method, path and body. It returns true if it has replied
// and false to let the request pass. forward passes the request on and drops the reply.
type fault func(w http.ResponseWriter, r *http.Request, n int, forward func()) bool

func newProxy(t *testing.T, c *cluster, f fault) (*proxy, *rest.Config) {
	t.Helper()
	target, err := url.Parse(c.host)
	require.NoError(t, err)
	back := httputil.NewSingleHostReverseProxy(target)
	back.Transport = c.client.Transport
	p := &proxy{tries: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		if r.Body != nil {
			_, _ = fmt.Fprint(body, readAll(r))
		}
		r.Body = readCloser(body.String())
		p.mu.Lock()
		key := r.Method + r.URL.Path + body.String()
		p.tries[key]++
		n := p.tries[key]
		p.mu.Unlock()
		forward := func() { back.ServeHTTP(httptest.NewRecorder(), r) }
		if f(w, r, n, forward) {
			return
		}
		back.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p, &rest.Config{Host: p.URL}
}

func readAll(r *http.Request) string {
	var b strings.Builder
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

type stringBody struct{ *strings.Reader }

func (stringBody) Close() error { return nil }

func readCloser(text string) stringBody { return stringBody{strings.NewReader(text)} }

// refuse replies with a Status.
func refuse(w http.ResponseWriter, code int, reason string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":%q,"code":%d}`, reason, code)
	return true
}

func manyConfigMaps(ns string, n int) []thing {
	things := []thing{namespaceThing(ns, nil)}
	for i := range n {
		things = append(things, configMap(ns, fmt.Sprintf("item-%03d", i), nil))
	}
	return things
}

// requireAllCreated requires that a restore created every item, once, without errors and warnings.
func requireAllCreated(t *testing.T, c *cluster, result *Result, things []thing) {
	t.Helper()
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Zero(t, result.Results.Warnings.Count(), "%+v", result.Results.Warnings)
	require.ElementsMatch(t, createdNames(things), created(result, ""))
	for _, one := range things {
		require.NotNil(t, c.live(one), one.name)
	}
}

func createdNames(things []thing) []string {
	var names []string
	for _, one := range things {
		if one.namespace == "" {
			names = append(names, "Namespace "+one.name)
			continue
		}
		names = append(names, "ConfigMap "+one.namespace+"/"+one.name)
	}
	return names
}

func TestAcceptRestore_ApiServerFaults(t *testing.T) {
	t.Parallel()
	isWrite := func(r *http.Request) bool { return r.Method != http.MethodGet }
	for name, f := range map[string]fault{
		"429 storm": func(w http.ResponseWriter, _ *http.Request, n int, _ func()) bool {
			return n <= 3 && refuse(w, http.StatusTooManyRequests, "TooManyRequests")
		},
		"429 with Retry-After": func(w http.ResponseWriter, r *http.Request, n int, _ func()) bool {
			if !isWrite(r) || n > 1 {
				return false
			}
			w.Header().Set("Retry-After", "1")
			return refuse(w, http.StatusTooManyRequests, "TooManyRequests")
		},
		"409 storm": func(w http.ResponseWriter, r *http.Request, n int, _ func()) bool {
			return isWrite(r) && n <= 4 && refuse(w, http.StatusConflict, "Conflict")
		},
		"objects that are reported to exist and do not": func(w http.ResponseWriter, r *http.Request, n int, _ func()) bool {
			return r.Method == http.MethodPost && n == 1 && refuse(w, http.StatusConflict, "AlreadyExists")
		},
		"503 storm": func(w http.ResponseWriter, _ *http.Request, n int, _ func()) bool {
			return n <= 3 && refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		},
		"errors of a proxy that are not a Status": func(w http.ResponseWriter, _ *http.Request, n int, _ func()) bool {
			if n <= 2 {
				http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
			}
			return n <= 2
		},
		"internal errors": func(w http.ResponseWriter, r *http.Request, n int, _ func()) bool {
			return isWrite(r) && n <= 2 && refuse(w, http.StatusInternalServerError, "InternalError")
		},
		"writes that take effect and whose reply is lost": func(_ http.ResponseWriter, r *http.Request, n int,
			forward func()) bool {
			if isWrite(r) && n == 1 {
				forward()
				panic(http.ErrAbortHandler)
			}
			return false
		},
		"writes that take effect and get the reply 504": func(w http.ResponseWriter, r *http.Request, n int,
			forward func()) bool {
			if isWrite(r) && n == 1 {
				forward()
				return refuse(w, http.StatusGatewayTimeout, "Timeout")
			}
			return false
		},
		"connections cut": func(_ http.ResponseWriter, _ *http.Request, n int, _ func()) bool {
			if n <= 2 {
				panic(http.ErrAbortHandler)
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			// The faults are for the engine only, so discovery uses client-go directly.
			_, config := newProxy(t, c, func(w http.ResponseWriter, r *http.Request, n int, forward func()) bool {
				return !isDiscovery(r) && f(w, r, n, forward)
			})
			things := manyConfigMaps(unique(t, "fault"), 40)
			through := *c
			through.config = config
			result, err := through.restore(pack(t, things...), newRestore("faulty", nil), testOptions())
			require.NoError(t, err)
			requireAllCreated(t, c, result, things)
		})
	}
}

// A quota, for example, can refuse a creation by apply with a conflict although the object does not exist.
func TestConflictOfAnApplyDoesNotMeanThatTheObjectExists(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "quota")
	c.create(namespaceThing(ns, nil), "test")
	one := configMap(ns, "x", obj{"data": obj{"a": "1"}})
	c.apply(one, "flux")
	before := c.asThing(one)
	want := ownersOf(t, c.live(one))
	c.remove(one)
	_, config := newProxy(t, c, func(w http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		return r.Header.Get("Content-Type") == kubeapi.Apply && refuse(w, http.StatusConflict, "Conflict")
	})
	through := *c
	through.config = config
	result := through.mustRestore(pack(t, before), newRestore("r", nil))
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Equal(t, want, ownersOf(t, c.live(one)))
}

func isDiscovery(r *http.Request) bool {
	return r.URL.Path == "/api" || r.URL.Path == "/apis" ||
		strings.Count(r.URL.Path, "/") == 2 && strings.HasPrefix(r.URL.Path, "/api/") ||
		strings.Count(r.URL.Path, "/") == 3 && strings.HasPrefix(r.URL.Path, "/apis/")
}

func TestAcceptRestore_ApiServerFaults_RestartInMidRestore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	own, err := controlplane.Start(t.Context(), controlplane.Options{}) // because it is restarted
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Stop()) })
	config := &rest.Config{Host: own.APIServer, BearerToken: own.Token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: own.CAFile}}
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	c := &cluster{t: t, config: config, client: client, host: own.APIServer}

	things := manyConfigMaps("restarted", 1500)
	for i := range 20 {
		things = append(things, in("secrets", "v1", "Secret", "restarted", fmt.Sprintf("s-%d", i), nil))
	}
	var once sync.Once
	restarted := make(chan error, 1)
	result, err := Run(t.Context(), Deps{Config: config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(t, config),
		Options: testOptions()}, Request{
		Restore: newRestore("restart", nil), Archive: pack(t, things...), Log: testLog(t),
		Progress: func(done, _ int) {
			if done >= 200 {
				once.Do(func() {
					go func() {
						err := own.Do(context.WithoutCancel(t.Context()), "kill", controlplane.APIServer)
						if err == nil {
							err = own.Do(context.WithoutCancel(t.Context()), "start", controlplane.APIServer)
						}
						restarted <- err
					}()
				})
			}
		},
	})
	require.NoError(t, err)
	require.NoError(t, <-restarted)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Zero(t, result.Results.Warnings.Count(), "%+v", result.Results.Warnings)
	require.Len(t, created(result, ""), len(things))
	for _, one := range []thing{things[1], things[700], things[1500], things[len(things)-1]} {
		require.NotNil(t, c.live(one), one.name)
	}
}

func TestAcceptRestore_ApiServerFaults_AwayForGood(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var away atomic.Bool
	_, config := newProxy(t, c, func(http.ResponseWriter, *http.Request, int, func()) bool {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	options := testOptions()
	options.OutageTimeout = 300 * time.Millisecond
	things := manyConfigMaps(unique(t, "away"), 300)
	result, err := Run(t.Context(), Deps{Config: config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(t, config),
		Options: options}, Request{
		Restore: newRestore("away", nil), Archive: pack(t, things...), Log: hclog.NewNullLogger(),
		Progress: func(done, _ int) { away.Store(done > 50) },
	})
	require.ErrorIs(t, err, kubeapi.ErrUnreachable)
	require.NotEmpty(t, created(result, ""), "items that were restored before are in the result")
	require.Less(t, len(created(result, "")), len(things))
}

func TestAcceptRestore_ApiServerFaults_OneItemThatAlwaysFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	things := manyConfigMaps(unique(t, "bad"), 20)
	_, config := newProxy(t, c, func(w http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body := readAll(r)
		r.Body = readCloser(body)
		return strings.Contains(body, "item-007") && refuse(w, http.StatusUnprocessableEntity, "Invalid")
	})
	through := *c
	through.config = config
	result, err := through.restore(pack(t, things...), newRestore("bad", nil), testOptions())
	require.NoError(t, err)
	ns := things[0].name
	require.Equal(t, 1, result.Results.Errors.Count())
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "configmaps/"+ns+"/item-007")
	require.Contains(t, entries(result, "v1/ConfigMap"), ns+"/item-007(failed)")
	require.Len(t, created(result, ""), 20) // 19 and the namespace
}

// widgetCRD returns the definition of custom resources in a group of the test.
func widgetCRD(group, plural, kind string) thing {
	return in("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
		plural+"."+group, obj{
			"spec": obj{
				"group": group, "scope": "Namespaced", "names": obj{"plural": plural, "singular": strings.ToLower(kind),
					"kind": kind, "listKind": kind + "List"},
				"versions": []obj{{
					"name": "v1", "served": true, "storage": true, "subresources": obj{"status": obj{}},
					"schema": obj{"openAPIV3Schema": obj{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				}},
			},
		})
}

func TestAcceptRestore_ApiServerFaults_CRDThatIsNeverEstablished(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := unique(t, "g") + ".example.com"
	ns := unique(t, "crd")
	taken := widgetCRD(group, "gizmos", "Widget")
	c.create(taken, "test")
	require.Eventually(t, func() bool {
		status, _ := c.call(http.MethodGet, "/apis/"+group+"/v1/gizmos", "", nil)
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond)

	options := testOptions()
	options.ResourceTimeout = 30 * time.Second // enough for a busy API server to find the conflict
	result, err := c.restore(pack(t,
		namespaceThing(ns, nil),
		widgetCRD(group, "widgets", "Widget"), // this kind is already in use
		in("widgets."+group, group+"/v1", "Widget", ns, "w", nil),
		configMap(ns, "other", nil),
	), newRestore("crd", nil), options)
	require.NoError(t, err, "the restore goes on")
	require.Contains(t, created(result, ""), "ConfigMap "+ns+"/other")
	require.Len(t, result.Results.Errors.Cluster, 1)
	require.Contains(t, result.Results.Errors.Cluster[0], "widgets."+group+
		" is not ready after 30s of waits (condition NamesAccepted is not met")
	require.Len(t, result.Results.Errors.Namespaces[ns], 1, "its custom resource")
}

func TestRestoreWaitsForCRDsBeforeTheirObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group, ns := unique(t, "g")+".example.com", unique(t, "crd")
	stem := "w" + strings.ToLower(rand.Text()) // the names are short ones, without the group
	var things []thing
	for i := range 5 {
		plural, kind := fmt.Sprintf("%ss%d", stem, i), fmt.Sprintf("%s%d", strings.ToUpper(stem), i)
		things = append(things, widgetCRD(group, plural, kind))
		for j := range 5 {
			things = append(things, in(plural+"."+group, group+"/v1", kind, ns, fmt.Sprintf("w%d", j),
				obj{"spec": obj{"size": j}, "status": obj{"ready": true}}))
		}
	}
	// Short names and status of types that the cluster does not serve when the restore begins.
	result := c.mustRestore(pack(t, things...), newRestore("crds", func(s *velerov1.RestoreSpec) {
		s.RestoreStatus = &velerov1.RestoreStatusSpec{IncludedResources: []string{stem + "3"}}
	}))
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Len(t, created(result, ""), 31)
	for i := range 5 {
		live := c.get(fmt.Sprintf("/apis/%s/v1/namespaces/%s/%ss%d/w4", group, ns, stem, i))
		require.EqualValues(t, 4, dig(live, "spec", "size"))
		require.Equal(t, i == 3, dig(live, "status", "ready") == true, "%d", i)
	}
}

func TestRestoreWaitsForATerminatingNamespace(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	terminate := func(ns string) thing {
		stuck := configMap(ns, "stuck", obj{"metadata": obj{"finalizers": []string{"example.com/keep"}}})
		c.create(namespaceThing(ns, nil), "test")
		c.create(stuck, "test")
		c.must(http.MethodDelete, pathOf(namespaceThing(ns, nil), true), "", nil)
		return stuck
	}
	t.Run("until it is deleted", func(t *testing.T) {
		t.Parallel()
		ns := unique(t, "term")
		stuck := terminate(ns)
		release := time.AfterFunc(300*time.Millisecond, func() {
			c.call(http.MethodPatch, pathOf(stuck, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
		})
		defer release.Stop()
		options := testOptions()
		things := manyConfigMaps(ns, 30)
		result, err := c.restore(pack(t, things...), newRestore("term", nil), options)
		require.NoError(t, err)
		requireAllCreated(t, c, result, things)
	})
	t.Run("not for ever", func(t *testing.T) {
		t.Parallel()
		ns, fine := unique(t, "term"), unique(t, "fine")
		stuck := terminate(ns)
		options := testOptions()
		options.TerminatingTimeout = 200 * time.Millisecond
		result, err := c.restore(pack(t, append(manyConfigMaps(ns, 3), configMap(fine, "x", nil))...),
			newRestore("term", nil), options)
		require.NoError(t, err)
		require.Contains(t, created(result, ""), "ConfigMap "+fine+"/x")
		require.Len(t, result.Results.Errors.Velero, 1)
		require.Contains(t, result.Results.Errors.Velero[0], "is being deleted and still existed after 200ms")
		require.Len(t, result.Results.Errors.Namespaces[ns], 3, "one for each item")
		c.must(http.MethodPatch, pathOf(stuck, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
	})
}
