package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The names of the components, as in the commands of "serve".
const (
	// s3AccessLog is the name of the file with the requests that the S3 server has answered.
	s3AccessLog = "s3-access.log"

	etcd      = "etcd"
	apiserver = "apiserver"
	kcm       = "kcm"
	s3        = "s3"

	// Components of a cluster with a node.
	scheduler = "scheduler"
	nodeName  = "node"

	// These are the controllers of CSI volumes. They start on command only, because they need definitions and a driver.
	snapshotController = "snapshot-controller"
	snapshotter        = "csi-snapshotter"
	provisioner        = "csi-provisioner"
)

// component is one server of the cluster. ready checks that it is ready, and that
// no other process responds on its port.
type component struct {
	name    string
	program string // the path of its executable
	args    []string
	env     []string
	ready   func(context.Context) error
	grace   time.Duration // time to stop before it is killed
	manual  bool          // it does not start with the cluster
	process *process      // nil before the first start
}

// s3Region is the region that the S3 server accepts.
const s3Region = "us-east-1"

// endpoints are the addresses and credentials of the cluster.
type endpoints struct {
	apiserverPort, kcmPort, s3Port int
	token                          string
	s3TLS                          bool
	accessKey, secretKey           string
}

func (e endpoints) apiserverURL() string { return address("https", e.apiserverPort) }

func (e endpoints) s3URL() string {
	if e.s3TLS {
		return address("https", e.s3Port)
	}
	return address("http", e.s3Port)
}

func address(scheme string, port int) string {
	return scheme + "://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// newComponents returns the components in the order in which they start.
func newComponents(programs map[string]string, f files, e endpoints, o options) ([]*component, error) {
	trusting, err := f.client()
	if err != nil {
		return nil, err
	}
	overSocket := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", f.etcdSocket)
		}}}
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+e.token) }

	// Variables of the caller, such as ETCD_* and VGW_*, must not configure the servers. The servers have small heaps
	// and much garbage: a larger heap saves a tenth of their time. With a million objects, it would fill the machine.
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "TMPDIR=" + f.dir, "GOGC=400", "GOMEMLIMIT=7GiB"}

	return append([]*component{
		{
			// etcd listens on a socket in the cluster's directory, so it needs no port and cannot be confused with
			// another cluster's etcd. The grace period is short because etcd would wait for the watches of a running
			// API server; a kill does not harm its data.
			name: etcd, program: programs[progEtcd], env: env, grace: 2 * time.Second,
			args: []string{
				"--data-dir=" + f.etcdData,
				"--listen-client-urls=unix://" + f.etcdSocket,
				"--advertise-client-urls=unix://" + f.etcdSocket,
				"--listen-peer-urls=http://127.0.0.1:0",
				"--unsafe-no-fsync", // the data need not survive the cluster
				"--quota-backend-bytes=8589934592",
				"--log-level=error",
			},
			ready: func(ctx context.Context) error {
				return checkURL(ctx, overSocket, "http://etcd/health", func(*http.Request) {})
			},
		},
		{
			name: apiserver, program: programs[progAPIServer], env: env, grace: stopGrace,
			args: append([]string{
				"--etcd-servers=unix://" + f.etcdSocket,
				"--bind-address=127.0.0.1",
				"--secure-port=" + strconv.Itoa(e.apiserverPort),
				// This address is not routed (RFC 5737). It gives the kubernetes service an endpoint.
				"--advertise-address=192.0.2.1",
				"--tls-cert-file=" + f.cert,
				"--tls-private-key-file=" + f.key,
				"--token-auth-file=" + f.tokens,
				"--authorization-mode=RBAC",
				"--allow-privileged=true",
				"--shutdown-send-retry-after=true", // after draining requests, watches get two seconds instead of a minute
				"--service-cluster-ip-range=10.98.0.0/16",
				"--service-account-issuer=https://kubernetes.default.svc",
				"--service-account-key-file=" + f.serviceAccountKey,
				"--service-account-signing-key-file=" + f.serviceAccountKey,
			}, append(egressFlags(f, o), o.apiserverFlags...)...),
			ready: func(ctx context.Context) error {
				return checkURL(ctx, trusting, e.apiserverURL()+"/readyz", bearer)
			},
		},
		{
			name: kcm, program: programs[progKCM], env: env, grace: stopGrace,
			args: append([]string{
				"--kubeconfig=" + f.kubeconfig,
				"--bind-address=127.0.0.1",
				"--secure-port=" + strconv.Itoa(e.kcmPort),
				"--tls-cert-file=" + f.cert,
				"--tls-private-key-file=" + f.key,
				"--leader-elect=false",
				"--service-account-private-key-file=" + f.serviceAccountKey,
				"--root-ca-file=" + f.ca,
				// There are no other clients to protect.
				"--kube-api-qps=1000",
				"--kube-api-burst=2000",
				"--concurrent-namespace-syncs=50",
			}, o.kcmFlags...),
			ready: func(ctx context.Context) error {
				return errors.Join(
					checkURL(ctx, trusting, address("https", e.kcmPort)+"/healthz", func(*http.Request) {}),
					checkURL(ctx, trusting, e.apiserverURL()+"/api/v1/namespaces/default/serviceaccounts/default", bearer))
			},
		},
		{
			name: s3, program: programs[progS3], grace: stopGrace,
			env: append(env, "ROOT_ACCESS_KEY_ID="+e.accessKey, "ROOT_SECRET_ACCESS_KEY="+e.secretKey),
			args: func() []string {
				args := []string{"--quiet", "--keep-alive", "--health=/health", "--region=" + s3Region,
					"--access-log=" + filepath.Join(f.logs, s3AccessLog),
					"--port=" + net.JoinHostPort("127.0.0.1", strconv.Itoa(e.s3Port))}
				if e.s3TLS {
					args = append(args, "--cert="+f.cert, "--key="+f.key)
				}
				// Metadata is in separate files because not every file system has extended attributes.
				return append(args, "posix", "--sidecar="+f.s3Metadata, "--versioning-dir="+f.s3Versions, f.s3Data)
			}(),
			ready: func(ctx context.Context) error {
				return checkURL(ctx, trusting, e.s3URL()+"/health", func(*http.Request) {})
			},
		},
	}, csiComponents(programs, f, env, o.csiSocket)...), nil
}

// client returns a client that trusts the cluster's CA.
func (f files) client() (*http.Client, error) {
	ca, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	// After a restart, connections to the old process cannot be used.
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}, nil
}

// csiComponents returns the controllers of the volumes of a CSI driver that listens on a socket; none without one. They
// have no port, and count as ready when they run.
func csiComponents(programs map[string]string, f files, env []string, socket string) []*component {
	if socket == "" {
		return nil
	}
	csi := func(name, program string, args ...string) *component {
		return &component{
			name: name, program: programs[program], env: env, grace: stopGrace, manual: true,
			ready: func(context.Context) error { return nil },
			args:  append([]string{"--kubeconfig=" + f.kubeconfig, "--kube-api-qps=1000", "--kube-api-burst=2000"}, args...),
		}
	}
	return []*component{
		csi(snapshotController, progSnapshotController, "--retry-interval-start=100ms", "--retry-interval-max=2s"),
		csi(snapshotter, progSnapshotter, "--csi-address="+socket, "--retry-interval-start=100ms", "--retry-interval-max=2s"),
		csi(provisioner, progProvisioner, "--csi-address="+socket, "--retry-interval-start=100ms", "--retry-interval-max=2s",
			"--extra-create-metadata=true"),
	}
}

// checkURL sends a GET request and returns an error unless the status is 200.
func checkURL(ctx context.Context, client *http.Client, url string, prepare func(*http.Request)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	prepare(request)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 2048))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: want 200, got %s: %s", url, response.Status, bytes.TrimSpace(body))
	}
	return nil
}

// logPath returns the path of the component's log.
func (c *component) logPath(f files) string { return filepath.Join(f.logs, c.name+".log") }
