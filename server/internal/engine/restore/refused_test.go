package restore

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// newWebhook registers an admission webhook for the creation of config maps and secrets in a namespace. The API server
// calls url, for up to a second. extra are more fields of the webhook.
func (c *cluster) newWebhook(t *testing.T, name, ns string, clientConfig, extra obj) thing {
	t.Helper()
	hook := obj{
		"name": name, "admissionReviewVersions": []string{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
		"timeoutSeconds":    1,
		"clientConfig":      clientConfig,
		"namespaceSelector": obj{"matchLabels": obj{"kubernetes.io/metadata.name": ns}},
		"rules": []obj{{"operations": []string{"CREATE"}, "apiGroups": []string{""},
			"apiVersions": []string{"v1"}, "resources": []string{"configmaps", "secrets"}}},
	}
	for key, value := range extra {
		hook[key] = value
	}
	one := in("validatingwebhookconfigurations.admissionregistration.k8s.io", "admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "",
		name, obj{"webhooks": []obj{hook}})
	c.create(one, "test")
	t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
	return one
}

// newWebhookServer starts a server of a webhook, which calls allows for each request. It returns the configuration of
// clients.
func newWebhookServer(t *testing.T, allows func(name string) bool) obj {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID    string
				Name   string
				Object struct{ Metadata struct{ Name string } }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(obj{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": obj{
			"uid": review.Request.UID, "allowed": allows(review.Request.Object.Metadata.Name),
			"status": obj{"message": "not wanted here", "code": 403},
		}})
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return obj{"url": server.URL, "caBundle": base64.StdEncoding.EncodeToString(ca)}
}

// awaitRefusal returns when the API server refuses to create a thing, for a reason that contains text.
func (c *cluster) awaitRefusal(one thing, text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		status, body := c.call(http.MethodPost, pathOf(one, false)+"?dryRun=All", kubeapi.JSON, one.body)
		return status >= 400 && strings.Contains(string(body), text)
	}, 5*time.Minute, 50*time.Millisecond, "%s is not refused", one.name)
}

// TestAcceptRestore_RefusedExisting restores objects that exist in a cluster that refuses all creations.
func TestAcceptRestore_RefusedExisting(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, tt := range map[string]struct {
		refuse func(t *testing.T, ns string)
		says   string
	}{
		"a quota that is full": {func(_ *testing.T, ns string) {
			c.create(in("resourcequotas", "v1", "ResourceQuota", ns, "full",
				obj{"spec": obj{"hard": obj{"count/configmaps": "1"}}}), "test")
		}, "exceeded quota"},
		"an admission policy": {func(t *testing.T, ns string) {
			const gr, version = "admissionregistration.k8s.io", "admissionregistration.k8s.io/v1"
			policy := in("validatingadmissionpolicies."+gr, version, "ValidatingAdmissionPolicy", "", ns, obj{"spec": obj{
				"failurePolicy": "Fail",
				"matchConstraints": obj{"resourceRules": []obj{{
					"operations": []string{"CREATE"}, "apiGroups": []string{""}, "apiVersions": []string{"v1"}, "resources": []string{
						"configmaps",
					},
				}}},
				"validations": []obj{{"expression": "false", "message": "no more config maps"}},
			}})
			binding := in("validatingadmissionpolicybindings."+gr, version, "ValidatingAdmissionPolicyBinding", "", ns,
				obj{"spec": obj{
					"policyName": ns, "validationActions": []string{"Deny"},
					"matchResources": obj{"namespaceSelector": obj{"matchLabels": obj{"kubernetes.io/metadata.name": ns}}},
				}})
			for _, one := range []thing{policy, binding} {
				c.create(one, "test")
				t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
			}
		}, "no more config maps"},
		"a webhook that denies": {func(t *testing.T, ns string) {
			c.newWebhook(t, ns+".example.com", ns, newWebhookServer(t, func(string) bool { return false }), nil)
		}, "not wanted here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := unique(t, "refuse")
			c.create(namespaceThing(ns, nil), "test")
			refusedExisting(t, c, ns, func() {
				tt.refuse(t, ns)
				c.awaitRefusal(configMap(ns, "new", nil), tt.says)
			}, tt.says)
		})
	}
	t.Run("a definition that has become stricter", func(t *testing.T) { t.Parallel(); refusedByDefinition(t, c) })
}

// refusedExisting restores existing objects, unchanged and drifted, made by creation and by apply, and one new object,
// under both policies.
func refusedExisting(t *testing.T, c *cluster, ns string, refuse func(), says string) {
	posted := []thing{configMap(ns, "same", nil), configMap(ns, "drifted", nil)}
	applied := []thing{configMap(ns, "applied-same", nil), configMap(ns, "applied-drifted", nil)}
	var backup []thing
	for _, one := range posted {
		c.create(one, "test")
		backup = append(backup, c.asThing(one))
	}
	for _, one := range applied {
		c.apply(one, "flux")
		backup = append(backup, c.asThing(one))
	}
	for _, one := range []thing{posted[1], applied[1]} {
		c.must(http.MethodPatch, pathOf(one, true), kubeapi.MergePatch, []byte(`{"data":{"a":"drifted"}}`))
	}
	refuse()
	for _, tt := range []struct {
		policy   velerov1.PolicyType
		drifted  string // the result for the drifted objects
		data     string
		warnings int
	}{
		{velerov1.PolicyTypeNone, "failed", "drifted", 2},
		{velerov1.PolicyTypeUpdate, "updated", "1", 0},
	} {
		result := c.mustRestore(pack(t, append(backup, configMap(ns, "new", nil))...),
			newRestore("r", func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = tt.policy }))
		require.Equal(t, []string{
			ns + "/applied-drifted(" + tt.drifted + ")", ns + "/applied-same(skipped)",
			ns + "/drifted(" + tt.drifted + ")", ns + "/new(failed)", ns + "/same(skipped)",
		}, entries(result, "v1/ConfigMap"), "%+v", result.Results)
		require.Len(t, result.Results.Errors.Namespaces[ns], 1, "that which is not there: %+v", result.Results.Errors)
		require.Contains(t, result.Results.Errors.Namespaces[ns][0], "configmaps/"+ns+"/new")
		require.Contains(t, result.Results.Errors.Namespaces[ns][0], says)
		require.Len(t, result.Results.Warnings.Namespaces[ns], tt.warnings, "%+v", result.Results.Warnings)
		for _, one := range []thing{posted[1], applied[1]} {
			require.Equal(t, tt.data, dig(c.live(one), "data", "a"))
		}
	}
}

// refusedByDefinition restores custom resources that exist and are no longer valid.
func refusedByDefinition(t *testing.T, c *cluster) {
	group, ns := unique(t, "g")+".example.com", unique(t, "strict")
	definition := widgetCRD(group, "widgets", "Widget")
	c.create(definition, "test")
	c.create(namespaceThing(ns, nil), "test")
	require.Eventually(t, func() bool {
		status, _ := c.call(http.MethodGet, "/apis/"+group+"/v1/widgets", "", nil)
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond)
	widget := func(name string) thing {
		return in("widgets."+group, group+"/v1", "Widget", ns, name, obj{"spec": obj{"size": 7, "color": "red"}})
	}
	var backup []thing
	for _, name := range []string{"same", "drifted"} {
		c.create(widget(name), "test")
		backup = append(backup, c.asThing(widget(name)))
	}
	c.must(http.MethodPatch, pathOf(widget("drifted"), true), kubeapi.MergePatch, []byte(`{"spec":{"color":"blue"}}`))
	c.must(http.MethodPatch, pathOf(definition, true), kubeapi.MergePatch,
		[]byte(`{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
		{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","maximum":3},"color":{"type":"string"}}}}}}}]}}`))
	c.awaitRefusal(widget("new"), "should be less than or equal to 3")

	result := c.mustRestore(pack(t, append(backup, widget("new"))...),
		newRestore("r", func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate }))
	require.Equal(t, []string{ns + "/drifted(updated)", ns + "/new(failed)", ns + "/same(skipped)"},
		entries(result, group+"/v1/Widget"), "%+v", result.Results)
	require.Equal(t, "red", dig(c.live(widget("drifted")), "spec", "color"))
	require.Len(t, result.Results.Errors.Namespaces[ns], 1, "%+v", result.Results.Errors)
}

// New objects cost one write each, and together one read: the list that tells at the end what is still there.
func TestNewObjectCostsOneWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "one")
	c.create(namespaceThing(ns, nil), "test")
	var reads, writes atomic.Int32
	_, config := newProxy(t, c, func(_ http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"+ns) {
			count := &writes
			if r.Method == http.MethodGet {
				count = &reads
			}
			count.Add(1)
		}
		return false
	})
	through := *c
	through.config = config
	things := manyConfigMaps(ns, 20)[1:]
	result := through.mustRestore(pack(t, things...), newRestore("r", nil))
	requireAllCreated(t, c, result, things)
	require.Equal(t, [2]int32{1, 20}, [2]int32{reads.Load(), writes.Load()}, "reads and writes")
}

// TestAcceptGraph_Refused restores objects that a webhook refuses while the next of them is missing, and one that it
// always refuses.
func TestAcceptGraph_Refused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "missing")
	c.create(namespaceThing(ns, nil), "test")
	const n = 5
	needs := map[string]string{"never": "nothing"}
	things := []thing{configMap(ns, "never", nil), configMap(ns, fmt.Sprint("item-", n), nil)}
	for i := range n {
		needs[fmt.Sprint("item-", i)] = fmt.Sprint("item-", i+1)
		things = append(things, configMap(ns, fmt.Sprint("item-", i), nil))
	}
	var mu sync.Mutex
	admitted, asked := map[string]bool{}, map[string]int{}
	c.newWebhook(t, ns+".example.com", ns, newWebhookServer(t, func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[name]++
		if needed := needs[name]; name == "probe" || needed != "" && !admitted[needed] {
			return false
		}
		admitted[name] = true
		return true
	}), nil)
	c.awaitRefusal(configMap(ns, "probe", nil), "not wanted here")

	result := c.mustRestore(pack(t, things...), newRestore("r", nil))
	var want []string
	for i := range n + 1 {
		want = append(want, fmt.Sprintf("%s/item-%d(created)", ns, i))
	}
	require.Equal(t, append(want, ns+"/never(failed)"), entries(result, "v1/ConfigMap"), "%+v", result.Results)
	require.Len(t, result.Results.Errors.Namespaces[ns], 1, "%+v", result.Results.Errors)
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "configmaps/"+ns+"/never")
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "not wanted here")
	require.Empty(t, result.Results.Warnings.Namespaces[ns])
	require.LessOrEqual(t, asked["never"], n+2, "once, in each round, and in one that changes nothing")
	require.Equal(t, 1, asked[fmt.Sprint("item-", n)])
}

// TestResourcesOfARefusedDefinitionAreRestored restores a custom resource whose definition is refused until all others
// are restored.
func TestResourcesOfARefusedDefinitionAreRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group, ns := unique(t, "g")+".example.com", unique(t, "late")
	definition, before := widgetCRD(group, "widgets", "Widget"), configMap(ns, "before", nil)
	t.Cleanup(func() { c.call(http.MethodDelete, pathOf(definition, true), "", nil) })
	widget := in("widgets."+group, group+"/v1", "Widget", ns, "one", obj{"spec": obj{"size": 1}})
	var refused atomic.Int32
	_, config := newProxy(t, c, func(w http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/customresourcedefinitions") {
			return false
		}
		if status, _ := c.call(http.MethodGet, pathOf(before, true), "", nil); status == http.StatusOK {
			return false
		}
		refused.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(obj{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403,
			"reason": "Forbidden", "message": "admission webhook denied the request: not yet"})
		return true
	})
	through := *c
	through.config = config
	things := []thing{definition, namespaceThing(ns, nil), before, widget}
	result := through.mustRestore(pack(t, things...), newRestore("r", nil))
	require.Positive(t, refused.Load())
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Len(t, created(result, ""), len(things))
}
