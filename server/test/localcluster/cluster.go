package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// readyTimeout is how long a component may take until it is ready. One that ends before is found out at once.
	readyTimeout = 5 * time.Minute
	// readyPoll is how often a starting component is asked.
	readyPoll = 50 * time.Millisecond
	// startAttempts is how often a cluster is started when a stranger takes one of its ports.
	startAttempts = 3
)

// errPortTaken says that another process listens on a port that we chose.
var errPortTaken = errors.New("its port was taken by another process")

// cluster is a running control plane. Its methods are not for concurrent use.
type cluster struct {
	files      files
	endpoints  endpoints
	components []*component // in the order in which they start
	spawner    *spawner
	lock       *os.File
	release    []func() // the reserved ports
	messages   io.Writer
}

// startCluster starts every component and returns when all of them are ready;
// on an error nothing is left behind. What happens to the components later,
// without being asked for, is told to messages.
func startCluster(ctx context.Context, programs map[string]string, o options, messages io.Writer) (*cluster, error) {
	if err := sweep(os.TempDir()); err != nil {
		fmt.Fprintf(messages, "localcluster: %v\n", err) // others' remains do not stop us
	}
	for attempt := 1; ; attempt++ {
		c, err := tryStartCluster(ctx, programs, o, messages)
		if err == nil || attempt == startAttempts || !errors.Is(err, errPortTaken) {
			return c, err
		}
	}
}

func tryStartCluster(ctx context.Context, programs map[string]string, o options, messages io.Writer) (*cluster, error) {
	f, lock, err := newDir(os.TempDir())
	if err != nil {
		return nil, err
	}
	c := &cluster{files: f, lock: lock, spawner: newSpawner(), messages: messages}
	if err := c.prepare(programs, o); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	for _, component := range c.components {
		if err := c.start(ctx, component); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	return c, nil
}

// prepare chooses ports and secrets and writes the files that components read.
func (c *cluster) prepare(programs map[string]string, o options) error {
	c.endpoints = endpoints{token: secret(), s3TLS: o.s3TLS, accessKey: "localcluster", secretKey: secret()}
	for _, port := range []*int{&c.endpoints.apiserverPort, &c.endpoints.kcmPort, &c.endpoints.s3Port} {
		free, release, err := reservePort()
		if err != nil {
			return err
		}
		*port, c.release = free, append(c.release, release)
	}
	if err := writeCertificates(c.files, time.Now()); err != nil {
		return err
	}
	for path, text := range map[string]string{
		c.files.tokens:     c.endpoints.token + ",admin,admin,\"system:masters\"\n",
		c.files.kubeconfig: kubeconfig(c.endpoints.apiserverURL(), c.files.ca, c.endpoints.token),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	var err error
	c.components, err = newComponents(programs, c.files, c.endpoints, o)
	return err
}

func kubeconfig(server, ca, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: localcluster
contexts:
- name: localcluster
  context: {cluster: localcluster, user: admin}
clusters:
- name: localcluster
  cluster: {server: %q, certificate-authority: %q}
users:
- name: admin
  user: {token: %q}
`, server, ca, token)
}

// start runs a component and waits until it is ready; if it does not get
// there, it is killed and the error says why and what it said last.
func (c *cluster) start(ctx context.Context, it *component) (err error) {
	p, err := c.spawner.start(it.name, it.logPath(c.files), it.program, it.args, it.env)
	if err != nil {
		return err
	}
	it.process = p

	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := it.ready(ctx)
		if err == nil && p.running() {
			go c.watch(p)
			return nil
		}
		select {
		case <-p.done:
			words := p.lastWords()
			if strings.Contains(words, "address already in use") {
				return fmt.Errorf("%s did not start: %w", it.name, errPortTaken)
			}
			return fmt.Errorf("%s ended before it was ready (%v), %s", it.name, p.err, words)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("gave up waiting for %s: %w", it.name, context.Cause(ctx)), p.kill())
		case <-timeout.C:
			return errors.Join(
				fmt.Errorf("%s is not ready after %s: %w; %s", it.name, readyTimeout, err, p.lastWords()),
				p.kill())
		case <-tick.C:
		}
	}
}

// watch tells when a component ends that nobody stopped.
func (c *cluster) watch(p *process) {
	<-p.done
	if !p.expected.Load() {
		fmt.Fprintf(c.messages, "localcluster: %s ended by itself (%v), %s\n", p.name, p.err, p.lastWords())
	}
}

// do carries out "start", "stop", "restart" or "kill" on a component by name.
// A component that was started is ready when do returns, with the ports and
// the data that it had.
func (c *cluster) do(ctx context.Context, verb, name string) error {
	i := slices.IndexFunc(c.components, func(it *component) bool { return it.name == name })
	if i < 0 {
		return fmt.Errorf("unknown component %q: want %s, %s, %s or %s", name, etcd, apiserver, kcm, s3)
	}
	it := c.components[i]
	running := it.process != nil && it.process.running()
	switch verb {
	case "start":
		if running {
			return fmt.Errorf("%s is running already", name)
		}
		return c.start(ctx, it)
	case "stop", "restart", "kill":
		if !running {
			return fmt.Errorf("%s is not running", name)
		}
	default:
		return fmt.Errorf("unknown command %q: want start, stop, restart or kill", verb)
	}
	switch verb {
	case "stop":
		return it.process.stop(it.grace)
	case "kill":
		return it.process.kill()
	default:
		if err := it.process.stop(it.grace); err != nil {
			return err
		}
		return c.start(ctx, it)
	}
}

// stop ends every component, those that use others first, and removes all
// that the cluster wrote. The S3 server stands alone and stops beside them.
func (c *cluster) stop() error {
	var beside sync.WaitGroup
	errs := make([]error, len(c.components))
	for i, it := range slices.Backward(c.components) {
		if it.process == nil {
			continue
		}
		if it.name == s3 {
			beside.Go(func() { errs[i] = it.process.stop(it.grace) })
			continue
		}
		errs[i] = it.process.stop(it.grace)
	}
	beside.Wait()
	c.spawner.close()
	for _, release := range c.release {
		release()
	}
	errs = append(errs, os.RemoveAll(c.files.dir), c.lock.Close())
	return errors.Join(errs...)
}
