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
)

// Options say what kind of cluster to start; the zero value is right for most.
type Options struct {
	// S3TLS serves S3 over https, with a certificate of the CA in S3.CAFile.
	S3TLS bool
	// APIServerFlags and ControllerManagerFlags are added to the flags of
	// kube-apiserver and kube-controller-manager.
	APIServerFlags, ControllerManagerFlags []string
	// Log gets the progress of a first build and what components say when they
	// end by themselves; nil is os.Stderr.
	Log io.Writer
}

// The components, as Do names them.
const (
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "kcm"
	S3Server          = "s3"
)

// S3 is how to reach the S3 server. Buckets are addressed path-style.
type S3 struct {
	Endpoint  string `json:"endpoint"` // URL
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Region    string `json:"region"`
	Dir       string `json:"dir"`    // a directory in it is a bucket, a file in that an object
	CAFile    string `json:"caFile"` // PEM; empty when the endpoint is http
}

// Cluster is a running control plane. Its fields are not to be changed; its
// methods may be called from several goroutines.
type Cluster struct {
	Dir        string `json:"dir"`        // everything of the cluster; logs are in logs/
	Kubeconfig string `json:"kubeconfig"` // a file; its user is in system:masters
	APIServer  string `json:"apiserver"`  // URL
	CAFile     string `json:"caFile"`     // PEM, of the CA that signed the API server's certificate
	Token      string `json:"token"`      // a bearer token of the kubeconfig's user
	S3         S3     `json:"s3"`

	launcher *exec.Cmd
	in       io.WriteCloser

	mu      sync.Mutex // one command at a time
	out     *json.Decoder
	stopped bool
	stopErr error
}

// What waits for a starved machine, and is not reached otherwise.
const (
	// stopTimeout is how long the launcher may take to end, after which it is killed.
	stopTimeout = 3 * time.Minute
	// outputDelay is how long what it said last may take to arrive.
	outputDelay = time.Minute
)

// Start starts a cluster and returns when all of it is ready: the API server
// answers, the controllers run and the default service account is there. The
// first start on a machine builds the programs, which takes minutes and is
// shown on o.Log. The end of ctx gives up the start; later it has no effect.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	path, err := buildLauncher(ctx)
	if err != nil {
		return nil, fmt.Errorf("building the launcher of the control plane: %w", err)
	}
	args := []string{"serve", "-o", "json"}
	if o.S3TLS {
		args = append(args, "-s3-tls")
	}
	for _, f := range o.APIServerFlags {
		args = append(args, "-apiserver-flag", f)
	}
	for _, f := range o.ControllerManagerFlags {
		args = append(args, "-kcm-flag", f)
	}

	last := &lastLines{next: o.Log}
	c := &Cluster{launcher: exec.Command(path, args...)}
	c.launcher.Stderr = last
	c.launcher.WaitDelay = outputDelay
	if c.in, err = c.launcher.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	out, err := c.launcher.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	if err := c.launcher.Start(); err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	c.out = json.NewDecoder(bufio.NewReader(out))

	// The launcher takes the end of its input as the order to stop.
	keep := context.AfterFunc(ctx, func() { c.in.Close() })
	err = c.out.Decode(c)
	if !keep() {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = errors.Join(err, c.Stop())
		return nil, fmt.Errorf("the control plane did not start: %w; it said last:\n%s", err, last)
	}
	return c, nil
}

// Do carries out verb ("start", "stop", "restart" or "kill") on a component
// and returns when that is done. A component that was started again is ready
// and has the address and the data that it had.
func (c *Cluster) Do(ctx context.Context, verb, component string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.stopped {
		return fmt.Errorf("%s %s: the control plane is stopped", verb, component)
	}
	if strings.ContainsAny(verb+component, " \t\r\n") {
		return fmt.Errorf("%q %q: want one word each, like %q %q", verb, component, "restart", APIServer)
	}
	if _, err := fmt.Fprintf(c.in, "%s %s\n", verb, component); err != nil {
		return fmt.Errorf("%s %s: asking the launcher: %w", verb, component, err)
	}
	var reply struct {
		OK    bool
		Error string
	}
	if err := c.out.Decode(&reply); err != nil {
		return fmt.Errorf("%s %s: reading the launcher's answer: %w", verb, component, err)
	}
	if !reply.OK {
		return fmt.Errorf("%s %s: %s", verb, component, reply.Error)
	}
	return nil
}

// Stop ends all of the cluster and returns when nothing of it is left, neither
// process nor file. A second call does nothing and returns the same.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return c.stopErr
	}
	c.stopped = true
	c.in.Close() // the order to stop; it may have been given already
	timer := time.AfterFunc(stopTimeout, func() { _ = c.launcher.Process.Kill() })
	defer timer.Stop()
	if err := c.launcher.Wait(); err != nil {
		c.stopErr = fmt.Errorf("stopping the control plane: %w", err)
	}
	return c.stopErr
}

// lastLines passes on what is written and keeps the end of it for an error.
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
