package restore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// operator is an operator in a namespace, which serves webhooks by a service "hooks": testdata/operator.
type operator struct {
	c   *cluster
	t   *testing.T
	ns  string
	dir string
	ca  string // for configurations, in base64
}

func newOperator(t *testing.T, c *cluster, ns string) *operator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: ns}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"hooks." + ns + ".svc"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	raw, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	o := &operator{c: c, t: t, ns: ns, dir: t.TempDir()}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	o.ca = base64.StdEncoding.EncodeToString(certificate)
	require.NoError(t, os.WriteFile(filepath.Join(o.dir, "cert"), certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(o.dir, "key"),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600))
	return o
}

// things returns the namespace, the deployment, the service and what the pods of the operator need.
func (o *operator) things() []thing {
	labels := obj{"app": "operator"}
	return []thing{
		namespaceThing(o.ns, nil),
		in("serviceaccounts", "v1", "ServiceAccount", o.ns, "operator", nil),
		in("secrets", "v1", "Secret", o.ns, "cert", nil),
		in("services", "v1", "Service", o.ns, "hooks", obj{"spec": obj{"selector": labels,
			"ports": []obj{{"name": "https", "port": 443, "targetPort": 8443}}}}),
		in("deployments.apps", "apps/v1", "Deployment", o.ns, "operator", obj{"spec": obj{
			"selector": obj{"matchLabels": labels},
			"template": obj{"metadata": obj{"labels": labels}, "spec": obj{"serviceAccountName": "operator",
				"containers": []obj{{"name": "c", "image": "i", "envFrom": []obj{{"secretRef": obj{"name": "cert"}}}}}}},
		}}),
	}
}

// service is where the API server finds the operator.
func (o *operator) service(path string) obj {
	return obj{"caBundle": o.ca, "service": obj{"namespace": o.ns, "name": "hooks", "path": path}}
}

// configuration is that of a webhook for the creation of objects of a group, without which it fails.
func (o *operator) configuration(name, group string, resources ...string) thing {
	return in("validatingwebhookconfigurations.admissionregistration.k8s.io", "admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "", name, obj{"webhooks": []obj{{
			"name": name + ".example.com", "admissionReviewVersions": []string{"v1"}, "sideEffects": "None",
			"failurePolicy": "Fail", "clientConfig": o.service("/admit"),
			"rules": []obj{{"operations": []string{"CREATE"}, "apiGroups": []string{group}, "apiVersions": []string{"*"},
				"resources": resources}},
		}}})
}

// run starts the process of the operator and lets its service have an endpoint, as a node would.
func (o *operator) run() {
	o.t.Helper()
	var host net.IP
	addresses, err := net.InterfaceAddrs()
	require.NoError(o.t, err)
	for _, address := range addresses {
		if in, ok := address.(*net.IPNet); ok && in.IP.To4() != nil && in.IP.IsGlobalUnicast() {
			host = in.IP
		}
	}
	if host == nil {
		o.t.Skip("endpoints of services are never loopback addresses, and this machine has no other")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host.String(), "0"))
	require.NoError(o.t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(o.t, listener.Close())
	address := net.JoinHostPort(host.String(), fmt.Sprint(port))
	program := programs.Build(o.t, "server/internal/engine/restore/testdata/operator")
	process := exec.Command(program, address, //nolint:gosec // ours
		filepath.Join(o.dir, "cert"), filepath.Join(o.dir, "key"), o.answersFile())
	process.Env = append(os.Environ(), "CLEAT_TEST_API="+o.c.host, "CLEAT_TEST_TOKEN="+o.c.config.BearerToken)
	process.Stderr = os.Stderr
	require.NoError(o.t, process.Start())
	o.t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	require.Eventually(o.t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 5*time.Minute, 20*time.Millisecond)
	o.c.create(in("endpointslices.discovery.k8s.io", "discovery.k8s.io/v1", "EndpointSlice", o.ns, "of-the-test", obj{
		"metadata":    obj{"labels": obj{"kubernetes.io/service-name": "hooks"}},
		"addressType": "IPv4", "ports": []obj{{"name": "https", "port": port, "protocol": "TCP"}},
		"endpoints": []obj{{"addresses": []string{host.String()}, "conditions": obj{"ready": true}}},
	}), "test")
}

func (o *operator) answersFile() string { return filepath.Join(o.dir, "answers") }

// answers returns what the operator was asked, and its answers.
func (o *operator) answers() []string {
	text, err := os.ReadFile(o.answersFile())
	require.NoError(o.t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
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
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},`, o.ca, ns), 1))
	converted.body = []byte(strings.Replace(string(converted.body), `"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":true`, `"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":false`, 1))
	aggregated := in("apiservices.apiregistration.k8s.io", "apiregistration.k8s.io/v1", "APIService", "", "v1.agg."+group,
		obj{"spec": obj{"group": "agg." + group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
			"caBundle": o.ca, "service": obj{"namespace": ns, "name": "hooks"}}})
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
