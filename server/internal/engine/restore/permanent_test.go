package restore

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// silentServer returns the address of a server that accepts connections and does not reply.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return "https://" + listener.Addr().String()
}

// TestAcceptRestore_PermanentFailures restores 200 objects that cannot be created because of one part of the cluster.
// The restore detects this with the first few of them. Objects that do not need that part are restored.
func TestAcceptRestore_PermanentFailures(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const n, workers = 200, 4
	noService := obj{"service": obj{"namespace": "default", "name": "no-such-service"}}
	for name, tt := range map[string]struct {
		// breaks breaks a part of the cluster. It returns the things to restore, which need the part if their name
		// begins with "item". says is part of each error.
		breaks func(t *testing.T, ns string) (things []thing, says string)
	}{
		"a webhook without a service": {func(t *testing.T, ns string) ([]thing, string) {
			c.newWebhook(t, ns+".example.com", ns, noService, nil)
			return manyConfigMaps(ns, n), fmt.Sprintf("webhook %q has failed every request", ns+".example.com")
		}},
		"a webhook whose service does not reply": {func(t *testing.T, ns string) ([]thing, string) {
			c.newWebhook(t, ns+".example.com", ns, obj{"url": silentServer(t)}, nil)
			return manyConfigMaps(ns, n), fmt.Sprintf("webhook %q has failed every request", ns+".example.com")
		}},
		"a webhook for some objects": {func(t *testing.T, ns string) ([]thing, string) {
			c.newWebhook(t, ns+".example.com", ns, noService, obj{"objectSelector": obj{"matchLabels": obj{"watched": "yes"}}})
			things := []thing{namespaceThing(ns, nil)}
			for i := range n {
				things = append(things, configMap(ns, fmt.Sprintf("item-%03d", i), labelled(obj{"watched": "yes"})),
					configMap(ns, fmt.Sprintf("other-%03d", i), nil))
			}
			return things, fmt.Sprintf("webhook %q has failed every request", ns+".example.com")
		}},
		"a webhook with conditions, which are not known": {func(t *testing.T, ns string) ([]thing, string) {
			c.newWebhook(t, ns+".example.com", ns, noService,
				obj{"matchConditions": []obj{{"name": "some", "expression": "request.name.startsWith('item')"}}})
			things := manyConfigMaps(ns, n)
			for i := range n {
				things = append(things, configMap(ns, fmt.Sprintf("other-%03d", i), nil))
			}
			return things, fmt.Sprintf("webhook %q has failed every request", ns+".example.com")
		}},
		"an API server behind the API server": {func(t *testing.T, ns string) ([]thing, string) {
			group := ns + ".example.com"
			service := in("apiservices.apiregistration.k8s.io", "apiregistration.k8s.io/v1", "APIService", "", "v1."+group,
				obj{"spec": obj{
					"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
					"insecureSkipTLSVerify": true,
					"service":               obj{"namespace": "default", "name": "no-such-service"},
				}})
			c.create(service, "test")
			t.Cleanup(func() { c.call(http.MethodDelete, pathOf(service, true), "", nil) })
			return manyWidgets(ns, group, "v1", n), "API group " + group + "/v1 has failed every request"
		}},
		"a conversion webhook": {func(t *testing.T, ns string) ([]thing, string) {
			group := ns + ".example.com"
			definition := widgetCRD(group, "widgets", "Widget")
			definition.body = []byte(strings.Replace(string(definition.body), `"versions":[`,
				`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
				"clientConfig":{"service":{"namespace":"default","name":"no-such-service"}}}},"versions":[{"name":"v2","served":true,"storage":false,
				"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},`, 1))
			c.create(definition, "test")
			t.Cleanup(func() { c.call(http.MethodDelete, pathOf(definition, true), "", nil) })
			require.Eventually(t, func() bool {
				status, _ := c.call(http.MethodGet, "/apis/"+group+"/v2/widgets", "", nil)
				return status == http.StatusOK
			}, 5*time.Minute, 50*time.Millisecond)
			return manyWidgets(ns, group, "v2", n), "the conversion webhook for writing of " + group +
				"/v2, Kind=Widget has failed every request"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, fine := unique(t, "broken"), unique(t, "fine")
			things, says := tt.breaks(t, ns)
			things = append(things, manyConfigMaps(fine, 5)...)
			var writes atomic.Int32
			_, config := newProxy(t, c, func(_ http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
				body := readAll(r)
				r.Body = readCloser(body)
				if r.Method != http.MethodGet && strings.Contains(r.URL.Path, ns) && strings.Contains(body, `"item-`) {
					writes.Add(1)
				}
				return false
			})
			through := *c
			through.config = config
			options := testOptions()
			options.Workers = workers
			options.OutageTimeout = time.Second // requests are repeated for this long
			c.create(things[0], "test")
			require.Eventually(t, func() bool {
				status, _ := c.call(http.MethodPost, pathOf(things[1], false)+"?dryRun=All", kubeapi.JSON, things[1].body)
				return status >= 500
			}, 5*time.Minute, 50*time.Millisecond)
			result, err := through.restore(pack(t, things...), newRestore("r", nil), options)
			require.NoError(t, err)

			failed := map[string]bool{}
			for _, entries := range lists(result) {
				for _, entry := range entries {
					if strings.Contains(entry, "/item-") && strings.HasPrefix(entry, ns) {
						require.Contains(t, entry, "(failed)")
						failed[entry] = true
					}
				}
			}
			require.Len(t, failed, n)
			require.Len(t, result.Results.Errors.Namespaces[ns], n, "one for each object")
			for _, message := range result.Results.Errors.Namespaces[ns] {
				require.Contains(t, message, says)
			}
			require.Equal(t, n, result.Results.Errors.Count(), "%+v", result.Results.Errors.Velero)
			for _, one := range things {
				if !strings.HasPrefix(one.name, "item-") || one.namespace == fine {
					require.NotNil(t, c.live(one), one.name)
				}
			}
			if !strings.Contains(name, "conditions") {
				require.Less(t, int(writes.Load()), n, "the others are not sent, but for one now and then")
			}
		})
	}
}

func manyWidgets(ns, group, version string, n int) []thing {
	things := []thing{namespaceThing(ns, nil)}
	for i := range n {
		things = append(things, in("widgets."+group, group+"/"+version, "Widget", ns, fmt.Sprintf("item-%03d", i), nil))
	}
	return things
}

// A webhook that is unavailable for a while, for example during a replacement of its pods, fails no object.
func TestAcceptRestore_PermanentFailures_NotTransientOnes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "away")
	var calls atomic.Int32
	c.newWebhook(t, ns+".example.com", ns, newWebhookServer(t, func(string) bool {
		if calls.Add(1) <= 60 {
			panic(http.ErrAbortHandler)
		}
		return true
	}), nil)
	c.create(namespaceThing(ns, nil), "test")
	c.awaitRefusal(configMap(ns, "probe", nil), "failed calling webhook")
	things := manyConfigMaps(ns, 100)[1:]
	result := c.mustRestore(pack(t, things...), newRestore("r", func(*velerov1.RestoreSpec) {}))
	requireAllCreated(t, c, result, things)
	require.Greater(t, int(calls.Load()), 150)
}

// An existing object is found even if an admission webhook without a service would refuse to create it.
func TestAcceptRestore_PermanentFailures_ExistingObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "there")
	things := manyConfigMaps(ns, 50)
	for _, one := range things {
		c.create(one, "test")
	}
	c.newWebhook(t, ns+".example.com", ns, obj{"service": obj{"namespace": "default", "name": "no-such-service"}}, nil)
	c.awaitRefusal(configMap(ns, "probe", nil), "failed calling webhook")
	c.must(http.MethodPatch, pathOf(things[1], true), kubeapi.MergePatch, []byte(`{"data":{"a":"drifted"}}`))
	options := testOptions()
	options.OutageTimeout = 300 * time.Millisecond
	result, err := c.restore(pack(t, things...),
		newRestore("r", func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate }), options)
	require.NoError(t, err)
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Equal(t, "1", dig(c.live(things[1]), "data", "a"))
}
