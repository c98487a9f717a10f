package fleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// Operator is an operator in a namespace, which serves webhooks by a service "hooks".
type Operator struct {
	Namespace string
	CA        string // for configurations, in base64

	dir string
}

// NewOperator returns an operator whose files are in a directory.
func NewOperator(namespace, dir string) (*Operator, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: namespace}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"hooks." + namespace + ".svc"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	o := &Operator{Namespace: namespace, CA: base64.StdEncoding.EncodeToString(certificate), dir: dir}
	return o, errors.Join(
		os.WriteFile(o.file("cert"), certificate, 0o600),
		os.WriteFile(o.file("key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600),
	)
}

func (o *Operator) file(name string) string { return filepath.Join(o.dir, name) }

// Objects returns the namespace, the deployment, the service and what the pods of the operator need. The deployment is
// the last one.
func (o *Operator) Objects() []Object {
	labels := obj{"app": "operator"}
	return []Object{
		NewObject("namespaces", "v1", "Namespace", "", o.Namespace, nil),
		NewObject("serviceaccounts", "v1", "ServiceAccount", o.Namespace, "operator", nil),
		NewObject("secrets", "v1", "Secret", o.Namespace, "cert", nil),
		NewObject("services", "v1", "Service", o.Namespace, "hooks", obj{"spec": obj{"selector": labels,
			"ports": []obj{{"name": "https", "port": 443, "targetPort": 8443}}}}),
		NewObject("deployments.apps", "apps/v1", "Deployment", o.Namespace, "operator", obj{"spec": obj{
			"selector": obj{"matchLabels": labels},
			"template": obj{"metadata": obj{"labels": labels}, "spec": obj{"serviceAccountName": "operator",
				"containers": []obj{{"name": "c", "image": "i", "envFrom": []obj{{"secretRef": obj{"name": "cert"}}}}}}},
		}}),
	}
}

// Configuration returns that of a webhook for the creation of objects of some groups, without which it fails.
func (o *Operator) Configuration(name string, groups []string, resources ...string) Object {
	return NewObject("validatingwebhookconfigurations.admissionregistration.k8s.io", "admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "", name, obj{"webhooks": []obj{{
			"name": name + ".example.com", "admissionReviewVersions": []string{"v1"}, "sideEffects": "None",
			"failurePolicy": "Fail",
			"clientConfig": obj{"caBundle": o.CA,
				"service": obj{"namespace": o.Namespace, "name": "hooks", "path": "/admit"}},
			"rules": []obj{{"operations": []string{"CREATE"}, "apiGroups": groups, "apiVersions": []string{"*"},
				"resources": resources}},
		}}})
}

// Groups returns the groups of the kinds.
func Groups() []string {
	return []string{"cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"}
}

// ErrNoAddress is the error of Run on a machine that has none but loopback addresses, which no endpoint of a service
// may have.
var ErrNoAddress = errors.New("endpoints of services are never loopback addresses, and this machine has no other")

// Run starts the process of the operator, which asks the API server of a config what exists. It returns an endpoint of
// the service, which a node would create. stop ends the process.
func (o *Operator) Run(ctx context.Context, api *rest.Config) (endpoint Object, stop func(), err error) {
	host, port, err := freeAddress()
	if err != nil {
		return Object{}, nil, err
	}
	program, err := programs.Link("server/test/fleet/operator")
	if err != nil {
		return Object{}, nil, err
	}
	address := net.JoinHostPort(host, fmt.Sprint(port))
	process := exec.CommandContext(ctx, program, address, o.file("cert"), o.file("key"), o.file("answers"))
	process.Env = append(os.Environ(), "CLEAT_TEST_API="+api.Host, "CLEAT_TEST_TOKEN="+api.BearerToken)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return Object{}, nil, err
	}
	stop = func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	}
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", address); err == nil {
			return o.endpoint(host, port), stop, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	return Object{}, nil, context.Cause(ctx)
}

func (o *Operator) endpoint(host string, port int) Object {
	return NewObject("endpointslices.discovery.k8s.io", "discovery.k8s.io/v1", "EndpointSlice", o.Namespace, "of-a-node",
		obj{
			"metadata":    obj{"labels": obj{"kubernetes.io/service-name": "hooks"}},
			"addressType": "IPv4", "ports": []obj{{"name": "https", "port": port, "protocol": "TCP"}},
			"endpoints": []obj{{"addresses": []string{host}, "conditions": obj{"ready": true}}},
		})
}

// freeAddress returns an address of this machine that is not used.
func freeAddress() (host string, port int, err error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", 0, err
	}
	for _, address := range addresses {
		if in, ok := address.(*net.IPNet); ok && in.IP.To4() != nil && in.IP.IsGlobalUnicast() {
			host = in.IP.String()
		}
	}
	if host == "" {
		return "", 0, ErrNoAddress
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", 0, err
	}
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return "", 0, errors.Join(fmt.Errorf("listening at %s, want TCP", listener.Addr()), listener.Close())
	}
	return host, tcp.Port, listener.Close()
}

// Answers returns what the operator was asked, and its answers: "admit KIND NAME ANSWER MISSING".
func (o *Operator) Answers() (lines []string, err error) {
	text, err := os.ReadFile(o.file("answers"))
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines, err
}
