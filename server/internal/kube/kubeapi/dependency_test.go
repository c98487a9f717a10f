package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/server/internal/kube/webhook"
)

func statusError(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}}
}

func always(context.Context, *Request) bool { return true }

func TestBrokenDependencyIsTriedNowAndThen(t *testing.T) {
	t.Parallel()
	var d dependencies
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	fails := errors.New("no reply")
	blamed := func() *dependency { return &dependency{name: "x", patience: 30 * time.Second, needs: always} }
	r := &Request{Resource: pods}

	require.NoError(t, d.refuse(t.Context(), r, at(0)))
	require.NoError(t, d.failed(blamed(), fails, at(0), at(0)))
	require.NoError(t, d.failed(blamed(), fails, at(0), at(29)), "it has patience")
	require.NoError(t, d.refuse(t.Context(), r, at(29)))
	require.NoError(t, d.failed(blamed(), fails, at(28), at(30)), "with each request")
	var broken *BrokenError
	require.ErrorAs(t, d.failed(blamed(), fails, at(0), at(30)), &broken)
	require.EqualError(t, broken, "x has failed every request for 30s; repair or remove it: no reply")
	require.ErrorAs(t, d.failed(blamed(), fails, at(28), at(31)), &broken, "then no longer")

	require.ErrorAs(t, d.refuse(t.Context(), r, at(59)), &broken)
	require.NoError(t, d.refuse(t.Context(), r, at(60)), "one finds out")
	require.ErrorAs(t, d.refuse(t.Context(), r, at(60)), &broken, "only one")
	require.ErrorAs(t, d.failed(blamed(), fails, at(60), at(61)), &broken, "once")
	require.ErrorAs(t, d.refuse(t.Context(), r, at(61)), &broken)
	require.NoError(t, d.refuse(t.Context(), r, at(90)))
	d.worked(t.Context(), r)
	require.NoError(t, d.refuse(t.Context(), r, at(91)), "it works again")
	require.NoError(t, d.failed(blamed(), fails, at(91), at(91)), "patience begins again")
}

func TestOneRequestThatFailsDoesNotBreakADependency(t *testing.T) {
	t.Parallel()
	var d dependencies
	start := time.Now()
	blamed := func() *dependency { return &dependency{name: "x", patience: time.Second, needs: always} }
	require.NoError(t, d.failed(blamed(), io.EOF, start, start))
	d.worked(t.Context(), &Request{Resource: pods}) // another one
	require.NoError(t, d.failed(blamed(), io.EOF, start, start.Add(900*time.Millisecond)))
	err := d.failed(blamed(), io.EOF, start, start.Add(time.Second))
	require.EqualError(t, err, "gave up after 1s of retries: EOF")
	require.NoError(t, d.refuse(t.Context(), &Request{Resource: pods}, start.Add(time.Second)))
}

func TestRequestsThatWaitForWhatFailsShareTheirTime(t *testing.T) {
	t.Parallel()
	client, requests := serve(t, time.Hour, func(w http.ResponseWriter, r *http.Request) {
		replyWith(http.StatusServiceUnavailable, "ServiceUnavailable", "")(w, r)
	})
	open := 0
	client.Stalled = func(context.Context, string) (time.Time, func()) {
		open++
		return time.Now().Add(-time.Second), func() { open-- }
	}
	for n, group := range []string{"a.io", "b.io", "c.io"} {
		var broken *BrokenError
		_, err := client.Do(t.Context(), Request{Resource: schema.GroupVersionResource{Group: group, Version: "v1",
			Resource: "things"}})
		require.ErrorAs(t, err, &broken)
		require.EqualValues(t, warnAttempt*(n+1), requests.Load(), "each is repeated for as long as that costs nothing")
		require.Zero(t, open)
	}
}

func TestBrokenAPIGroupRefusesRequestsAtOnce(t *testing.T) {
	t.Parallel()
	client, requests := serve(t, 200*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/g.io/") {
			replyWith(http.StatusServiceUnavailable, "ServiceUnavailable", "")(w, r)
			return
		}
		succeed(w, r)
	})
	things := schema.GroupVersionResource{Group: "g.io", Version: "v1", Resource: "things"}
	others := schema.GroupVersionResource{Group: "g.io", Version: "v1", Resource: "others"}
	var broken *BrokenError
	_, err := client.Do(t.Context(), Request{Resource: things})
	require.ErrorAs(t, err, &broken)
	require.Equal(t, "API group g.io/v1", broken.Part)
	before := requests.Load()
	for range 100 {
		_, err := client.Do(t.Context(), Request{Resource: others})
		require.ErrorAs(t, err, &broken)
	}
	require.LessOrEqual(t, requests.Load()-before, int32(2))
	_, err = client.Do(t.Context(), Request{Resource: pods})
	require.NoError(t, err)
	client.TryBroken()
	before = requests.Load()
	for range 10 {
		_, err := client.Do(t.Context(), Request{Resource: others})
		require.ErrorAs(t, err, &broken)
	}
	require.NotEqual(t, before, requests.Load())
}

func TestBlame(t *testing.T) {
	t.Parallel()
	client, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, hclog.NewNullLogger(), time.Minute)
	require.NoError(t, err)
	for message, want := range map[string]struct {
		name     string
		patience time.Duration
	}{
		`Internal error occurred: failed calling webhook "a.b.io": failed to call webhook: Post "https://a.b.svc:443/?timeout=10s": service "a" not found`: {`webhook "a.b.io"`, webhookPatience},
		`conversion webhook for g.io/v1, Kind=Thing failed: Post "https://a.b.svc:443/?timeout=30s": EOF`:                                                  {"the conversion webhook for writing of g.io/v1, Kind=Thing", webhookPatience},
		`admission webhook "a.b.io" denied the request: no`:                                                                                                {},
		`etcdserver: request timed out`: {},
	} {
		blamed := client.blame(&Request{Method: http.MethodPost, Resource: pods},
			statusError(http.StatusInternalServerError, message))
		if want.name == "" {
			require.Nil(t, blamed, message)
			continue
		}
		require.Equal(t, want.name, blamed.name)
		require.Equal(t, want.patience, blamed.patience)
	}
	require.Equal(t, "API group v1",
		client.blame(&Request{Resource: pods}, statusError(http.StatusServiceUnavailable, "")).name)
	require.Nil(t, client.blame(&Request{}, statusError(http.StatusServiceUnavailable, "")), "a request that is not known")
	require.Nil(t, client.blame(&Request{Resource: pods}, io.EOF))
}

func TestWebhookMatches(t *testing.T) {
	t.Parallel()
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	create := Request{Method: http.MethodPost, Resource: configMaps, Namespace: "shop", ContentType: JSON,
		Body: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}
	patch := Request{Method: http.MethodPatch, Resource: configMaps, Namespace: "shop", ContentType: MergePatch,
		Body: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}
	apply := create
	apply.Method, apply.ContentType, apply.Conditional = http.MethodPatch, Apply, true
	status := create
	status.Method, status.Subresource = http.MethodPut, "status"
	cluster := create
	cluster.Resource, cluster.Namespace = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, ""
	namespace := cluster
	namespace.Resource.Resource = "namespaces"
	hooks := cluster
	hooks.Resource = schema.GroupVersionResource{Group: admissionv1.GroupName, Version: "v1",
		Resource: "validatingwebhookconfigurations"}

	rule := func(operation admissionv1.OperationType, group, version string,
		resources ...string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{operation},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources},
		}}
	}
	all := rule("*", "*", "*", "*/*")
	scoped := rule("*", "*", "*", "*")
	scoped[0].Scope = new(admissionv1.ScopeType)
	*scoped[0].Scope = admissionv1.ClusterScope
	selector := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"a": value}}
	}
	around := webhook.Webhook{Rules: all, NamespaceSelector: selector("around")}
	for name, tt := range map[string]struct {
		hook webhook.Webhook
		r    Request
		want bool
	}{
		"everything":          {webhook.Webhook{Rules: all}, create, true},
		"no rule":             {webhook.Webhook{}, create, false},
		"this operation":      {webhook.Webhook{Rules: rule("CREATE", "", "v1", "configmaps")}, create, true},
		"apply that creates":  {webhook.Webhook{Rules: rule("CREATE", "", "v1", "configmaps")}, apply, true},
		"another operation":   {webhook.Webhook{Rules: rule("CREATE", "", "v1", "configmaps")}, patch, false},
		"an update":           {webhook.Webhook{Rules: rule("UPDATE", "", "v1", "configmaps")}, patch, true},
		"another group":       {webhook.Webhook{Rules: rule("*", "apps", "*", "*")}, create, false},
		"another version":     {webhook.Webhook{Rules: rule("*", "*", "v2", "*")}, create, false},
		"another resource":    {webhook.Webhook{Rules: rule("*", "*", "*", "pods", "configmaps/status")}, create, false},
		"a subresource":       {webhook.Webhook{Rules: rule("*", "*", "*", "configmaps/*")}, status, true},
		"not the subresource": {webhook.Webhook{Rules: rule("*", "*", "*", "*")}, status, false},
		"another scope":       {webhook.Webhook{Rules: scoped}, create, false},
		"this scope":          {webhook.Webhook{Rules: scoped}, cluster, true},
		"conditions": {webhook.Webhook{Rules: all, MatchConditions: []json.RawMessage{[]byte("{}")}}, create,
			false},
		"labels of the object":             {webhook.Webhook{Rules: all, ObjectSelector: selector("b")}, create, true},
		"other labels of the object":       {webhook.Webhook{Rules: all, ObjectSelector: selector("c")}, create, false},
		"labels that a patch does not say": {webhook.Webhook{Rules: all, ObjectSelector: selector("b")}, patch, false},
		"labels of the namespace":          {around, create, true},
		"other labels of the namespace":    {webhook.Webhook{Rules: all, NamespaceSelector: selector("b")}, create, false},
		"no namespace to select":           {webhook.Webhook{Rules: all, NamespaceSelector: selector("c")}, cluster, true},
		"a namespace is its own":           {webhook.Webhook{Rules: all, NamespaceSelector: selector("b")}, namespace, true},
		"another namespace":                {around, namespace, false},
		"webhooks themselves":              {webhook.Webhook{Rules: all}, hooks, false},
		"a read":                           {webhook.Webhook{Rules: all}, Request{Resource: configMaps}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operation := operationOf(&tt.r)
			got := operation != "" &&
				isCalled(&tt.hook, operation, &tt.r, func() labels.Set { return labels.Set{"a": "around"} })
			require.Equal(t, tt.want, got)
		})
	}
	require.False(t, isCalled(&around, admissionv1.Create, &create, func() labels.Set { return nil }),
		"a namespace that cannot be read")
}
