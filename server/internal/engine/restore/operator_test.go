package restore

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/fleet"
)

// operator is an operator whose namespace is restored.
type operator struct {
	*fleet.Operator
	c *cluster
	t *testing.T
}

func newOperator(t *testing.T, c *cluster, ns string) *operator {
	t.Helper()
	of, err := fleet.NewOperator(ns, t.TempDir())
	require.NoError(t, err)
	return &operator{of, c, t}
}

// thingsOf returns objects as things.
func thingsOf(objects ...fleet.Object) (things []thing) {
	for _, o := range objects {
		things = append(things, thing{o.Resource, o.Version, o.Namespace, o.Name, o.Body})
	}
	return things
}

// things returns the namespace, the deployment, the service and what the pods of the operator need.
func (o *operator) things() []thing { return thingsOf(o.Objects()...) }

// configuration is that of a webhook for the creation of objects of a group.
func (o *operator) configuration(name, group string, resources ...string) thing {
	return thingsOf(o.Configuration(name, []string{group}, resources...))[0]
}

// run starts the process of the operator and lets its service have an endpoint, as a node would.
func (o *operator) run() {
	o.t.Helper()
	endpoint, stop, err := o.Run(o.t.Context(), o.c.config)
	if errors.Is(err, fleet.ErrNoAddress) {
		o.t.Skip(err)
	}
	require.NoError(o.t, err)
	o.t.Cleanup(stop)
	o.c.create(thingsOf(endpoint)[0], "test")
}

// answers returns what the operator was asked, and its answers.
func (o *operator) answers() []string {
	lines, err := o.Answers()
	require.NoError(o.t, err)
	return lines
}

// await returns when a thing exists.
func (c *cluster) await(one thing) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		status, _ := c.call(http.MethodGet, pathOf(one, true), "", nil)
		return status == http.StatusOK
	}, 5*time.Minute, 20*time.Millisecond, "%s %s", one.gr, one.name)
}

// TestAcceptGraph_Webhooks restores an operator together with what its webhooks admit and convert, and with objects of
// the API that it serves. Some seconds pass until it runs.
func TestAcceptGraph_Webhooks(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns, group := unique(t, "operator"), unique(t, "g")+".example.com"
	o := newOperator(t, c, ns)
	widgets, converted := widgetCRD(group, "widgets", "Widget"), widgetCRD(group, "gadgets", "Gadget")
	converted.body = []byte(strings.Replace(string(converted.body), `"versions":[`, fmt.Sprintf(
		`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"caBundle":%q,
		"service":{"namespace":%q,"name":"hooks","path":"/convert"}}}},"versions":[{"name":"v2","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},`, o.CA, ns), 1))
	converted.body = []byte(strings.Replace(string(converted.body), `"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":true`, `"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":false`, 1))
	aggregated := in("apiservices.apiregistration.k8s.io", "apiregistration.k8s.io/v1", "APIService", "", "v1.agg."+group,
		obj{"spec": obj{"group": "agg." + group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
			"caBundle": o.CA, "service": obj{"namespace": ns, "name": "hooks"}}})
	configuration := o.configuration(ns, group, "widgets")
	later := in("roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "Role", ns, "later", nil)
	latest := in("storageclasses.storage.k8s.io", "storage.k8s.io/v1", "StorageClass", "", ns, obj{"provisioner": "x"})
	things := append(o.things(), widgets, converted, aggregated, configuration, later, latest)
	var held []thing
	for i := range 20 {
		held = append(held,
			in("widgets."+group, group+"/v1", "Widget", ns, fmt.Sprint("w", i), nil),
			in("gadgets."+group, group+"/v1", "Gadget", ns, fmt.Sprint("g", i), nil),
			in("gauges.agg."+group, "agg."+group+"/v1", "Gauge", ns, fmt.Sprint("u", i), nil))
	}
	for _, one := range []thing{configuration, aggregated, widgets, converted, latest} {
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
	}
	var serves atomic.Bool
	var early, asked atomic.Int32
	_, config := newProxy(t, c, func(_ http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, group+"/v1/namespaces/") {
			asked.Add(1)
			if !serves.Load() {
				early.Add(1)
			}
		}
		return false
	})
	through := *c
	through.config = config
	ended := make(chan *Result, 1)
	go func() { ended <- through.mustRestore(pack(t, append(things, held...)...), newRestore("r", nil)) }()
	for _, one := range append(things, latest) {
		c.await(one)
	}
	time.Sleep(3 * time.Second)
	serves.Store(true)
	o.run()
	result := <-ended
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Zero(t, early.Load(), "requests before the operator serves")
	require.EqualValues(t, len(held), asked.Load(), "one for each")
	count := map[string]int{}
	for _, line := range o.answers() {
		words := strings.Fields(line)
		count[words[0]+" "+words[1]+" "+words[3]]++
	}
	require.Equal(t, 20, count["admit Widget admitted"])
	require.GreaterOrEqual(t, count["convert Gadget converted"], 20)
	require.Equal(t, 20, count["create Gauge created"])
	for _, one := range held {
		require.NotNil(t, c.live(one), one.name)
	}
}

// TestAcceptGraph_OwnWebhook restores an operator whose webhook has to admit everything in its namespace: what the
// operator needs does not wait for it, and the rest does.
func TestAcceptGraph_OwnWebhook(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "own")
	o := newOperator(t, c, ns)
	configuration := o.configuration(ns, "", "secrets", "serviceaccounts", "configmaps")
	configuration.body = []byte(strings.Replace(string(configuration.body), `"rules":`, fmt.Sprintf(
		`"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%q}},"rules":`, ns), 1))
	t.Cleanup(func() { c.call(http.MethodDelete, pathOf(configuration, true), "", nil) })
	held := configMap(ns, "held", nil)
	things := append(o.things(), configuration, held)
	ended := make(chan *Result, 1)
	go func() { ended <- c.mustRestore(pack(t, things...), newRestore("r", nil)) }()
	for _, one := range append(o.things(), configuration) {
		c.await(one)
	}
	require.Nil(t, c.live(held))
	o.run()
	result := <-ended
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Len(t, created(result, ""), len(things))
	require.Contains(t, o.answers(), "admit ConfigMap held admitted")
}
