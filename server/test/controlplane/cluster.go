package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// Options configure a cluster. The zero value suits most tests.
type Options struct {
	// S3TLS enables https for S3, with a certificate signed by the CA in S3.CAFile.
	S3TLS bool
	// Node adds a node with a real kubelet, which runs pods, and a scheduler.
	Node bool
	// APIServerFlags and ControllerManagerFlags are added to the flags of
	// kube-apiserver and kube-controller-manager.
	APIServerFlags, ControllerManagerFlags []string
	// CSISocket is the socket of a CSI driver. For its volumes the cluster has controllers, which Do starts; "" for
	// none.
	CSISocket string
	// Log receives the progress of the first build and the output of components
	// that exit unexpectedly. nil means os.Stderr.
	Log io.Writer
}

// These are the components that Do controls.
const (
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "kcm"
	S3Server          = "s3"

	// Scheduler and NodeMachine exist with Options.Node. After a restart, the PID of the node differs from Node.PID.
	Scheduler   = "scheduler"
	NodeMachine = "node"

	// SnapshotController needs the definitions of snapshots; the two others need the driver of Options.CSISocket.
	SnapshotController = "snapshot-controller"
	CSISnapshotter     = "csi-snapshotter"
	CSIProvisioner     = "csi-provisioner"
)

// S3 has the address and credentials of the S3 server. Buckets are addressed path-style.
type S3 struct {
	Endpoint  string `json:"endpoint"` // URL
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Region    string `json:"region"`
	Dir       string `json:"dir"`    // its directories are buckets, and their files are objects
	CAFile    string `json:"caFile"` // PEM; empty if the endpoint is http
}

// Node describes the node of Options.Node. It has its own namespaces: nsenter runs a program in them, and pods reach
// the API server and S3 only. Programs on the node without a network namespace of their own use the same addresses as
// on the machine.
type Node struct {
	Name       string `json:"name"`
	PID        int    `json:"pid"`        // of the first process of its namespaces
	Kubelet    string `json:"kubelet"`    // the directory of /var/lib/kubelet on the node, without the mounts in it
	S3Endpoint string `json:"s3Endpoint"` // URL, for pods
	Containerd string `json:"containerd"` // socket
	Ctr        string `json:"ctr"`        // the client of containerd
}

// ErrNoNode means that this machine cannot run a node.
var ErrNoNode = errors.New("no node can run here")

// Cluster is a running control plane. Its fields must not be changed. Its
// methods are safe for concurrent use.
type Cluster struct {
	Dir        string `json:"dir"`        // all files of the cluster; logs are in logs/
	Kubeconfig string `json:"kubeconfig"` // a file; its user is in system:masters
	APIServer  string `json:"apiserver"`  // URL
	CAFile     string `json:"caFile"`     // PEM, of the CA that signed the API server's certificate
	Token      string `json:"token"`      // a bearer token of the kubeconfig's user
	S3         S3     `json:"s3"`
	Node       *Node  `json:"node"` // nil without Options.Node

	launcher *exec.Cmd // nil if other packages use the cluster
	in       io.WriteCloser

	mu      sync.Mutex // held during a command
	out     *json.Decoder
	stopped bool
	stopErr error
}

// These limits are only reached on a machine under heavy load.
const (
	// stopTimeout is the time after which a launcher that does not exit is killed.
	stopTimeout = 3 * time.Minute
	// outputDelay limits the wait for the last output of the launcher.
	outputDelay = time.Minute
)

// Start starts a cluster and waits until it is ready: the API server responds,
// the controllers run and the default service account exists. The first start
// on a machine builds the programs, which takes minutes and is reported on
// o.Log. If ctx ends, Start stops the cluster; after Start, ctx has no effect.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	path, err := programs.BuildModule("server/test/localcluster")
	if err != nil {
		return nil, fmt.Errorf("build the launcher of the control plane: %w", err)
	}
	args := []string{"serve"}
	if o.S3TLS {
		args = append(args, "-s3-tls")
	}
	if o.Node {
		args = append(args, "-node")
	}
	for _, f := range o.APIServerFlags {
		args = append(args, "-apiserver-flag", f)
	}
	for _, f := range o.ControllerManagerFlags {
		args = append(args, "-kcm-flag", f)
	}
	if o.CSISocket != "" {
		args = append(args, "-csi-socket", o.CSISocket)
	}

	last := &lastLines{next: o.Log}
	c := &Cluster{launcher: exec.Command(path, args...)}
	c.launcher.Stderr = last
	c.launcher.WaitDelay = outputDelay
	if c.in, err = c.launcher.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	out, err := c.launcher.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	if err := c.launcher.Start(); err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	c.out = json.NewDecoder(bufio.NewReader(out))

	// The launcher stops when its input ends.
	keep := context.AfterFunc(ctx, func() { c.in.Close() })
	reply := struct {
		*Cluster
		NoNode string // the reason
	}{Cluster: c}
	err = c.out.Decode(&reply)
	if !keep() {
		err = context.Cause(ctx)
	}
	if err == nil && reply.NoNode != "" {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrNoNode, reply.NoNode), c.Stop())
	}
	if err != nil {
		err = errors.Join(err, c.Stop())
		return nil, fmt.Errorf("the control plane did not start: %w; end of its output:\n%s", err, last)
	}
	return c, nil
}

// Do starts, stops, restarts or kills a component, according to verb ("start",
// "stop", "restart" or "kill"), and waits for it. A component that is started
// again has the same address and data as before.
func (c *Cluster) Do(ctx context.Context, verb, component string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case c.launcher == nil:
		return fmt.Errorf("%s %s: other packages use this control plane, start another one", verb, component)
	case c.stopped:
		return fmt.Errorf("%s %s: the control plane is stopped", verb, component)
	}
	if strings.ContainsAny(verb+component, " \t\r\n") {
		return fmt.Errorf("%q %q: want one word each, such as %q %q", verb, component, "restart", APIServer)
	}
	if _, err := fmt.Fprintf(c.in, "%s %s\n", verb, component); err != nil {
		return fmt.Errorf("%s %s: send the command to the launcher: %w", verb, component, err)
	}
	var reply struct {
		OK    bool
		Error string
	}
	if err := c.out.Decode(&reply); err != nil {
		return fmt.Errorf("%s %s: read the response of the launcher: %w", verb, component, err)
	}
	if !reply.OK {
		return fmt.Errorf("%s %s: %s", verb, component, reply.Error)
	}
	return nil
}

// Stop stops the cluster and waits until its processes have exited and its files are removed. It does not stop a
// cluster that other packages use. A second call does nothing and returns the same error.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.launcher == nil {
		return c.stopErr
	}
	c.stopped = true
	c.in.Close() // the launcher stops; the input may be closed already
	timer := time.AfterFunc(stopTimeout, func() { _ = c.launcher.Process.Kill() })
	defer timer.Stop()
	if err := c.launcher.Wait(); err != nil {
		c.stopErr = fmt.Errorf("stop the control plane: %w", err)
	}
	return c.stopErr
}

// lastLines is a writer that passes its input on and keeps the end for errors.
type lastLines struct {
	next io.Writer
	mu   sync.Mutex
	kept []byte
}

func (l *lastLines) Write(p []byte) (int, error) {
	const most = 4 << 10
	l.mu.Lock()
	l.kept = append(l.kept, p...)
	l.kept = l.kept[max(0, len(l.kept)-most):]
	l.mu.Unlock()
	return l.next.Write(p)
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}
