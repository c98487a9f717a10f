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

	"github.com/cleat-dev/cleat/server/test/localcluster/node"
)

const (
	// readyTimeout is the time after which a component that is not ready has failed. One that exits fails immediately.
	readyTimeout = 5 * time.Minute
	// readyPoll is the interval between checks of a starting component.
	readyPoll = 50 * time.Millisecond
	// startAttempts is the number of attempts to start a cluster if another process takes one of its ports.
	startAttempts = 3
)

// errPortTaken means that another process listens on the component's port.
var errPortTaken = errors.New("its port was taken by another process")

// cluster is a running control plane. Its methods are not safe for concurrent use.
type cluster struct {
	files      files
	endpoints  endpoints
	components []*component // in the order in which they start
	spawner    *spawner
	lock       *os.File
	release    []func() // release the reserved ports
	messages   io.Writer
}

// startCluster starts all components and waits until they are ready. If it
// fails, it removes everything. If a component exits unexpectedly later, that
// is reported on messages.
func startCluster(ctx context.Context, programs map[string]string, o options, messages io.Writer) (*cluster, error) {
	if o.node {
		if err := ensureNode(ctx, messages); err != nil {
			return nil, err
		}
	}
	err := sweep(os.TempDir())
	if o.node {
		err = errors.Join(err, node.Sweep())
	}
	if err != nil {
		fmt.Fprintf(messages, "localcluster: %v\n", err) // files of other clusters do not matter
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
		if component.manual {
			continue
		}
		if err := c.start(ctx, component); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	return c, nil
}

// prepare chooses ports and secrets and writes the files of the components.
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
	if o.node {
		if err := writeEgress(c.files); err != nil {
			return err
		}
	}
	var err error
	c.components, err = newComponents(programs, c.files, c.endpoints, o)
	if err != nil || !o.node {
		return err
	}
	return c.prepareNode(programs)
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

// start starts a component and waits until it is ready. If that fails, start
// kills the component and returns an error with the end of its log.
func (c *cluster) start(ctx context.Context, it *component) (err error) {
	attributes := childAttributes()
	if it.name == nodeName {
		attributes = node.Attributes(attributes)
	}
	p, err := c.spawner.start(it.name, it.logPath(c.files), it.program, it.args, it.env, attributes)
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
			log := p.endOfLog()
			if strings.Contains(log, "address already in use") {
				return fmt.Errorf("%s did not start: %w", it.name, errPortTaken)
			}
			return fmt.Errorf("%s ended before it was ready (%v), %s", it.name, p.err, log)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("gave up waiting for %s: %w", it.name, context.Cause(ctx)), p.kill())
		case <-timeout.C:
			return errors.Join(
				fmt.Errorf("%s is not ready after %s: %w; %s", it.name, readyTimeout, err, p.endOfLog()),
				p.kill())
		case <-tick.C:
		}
	}
}

// watch reports the unexpected end of a component.
func (c *cluster) watch(p *process) {
	<-p.done
	if !p.expected.Load() {
		fmt.Fprintf(c.messages, "localcluster: %s ended by itself (%v), %s\n", p.name, p.err, p.endOfLog())
	}
}

// do starts, stops, restarts or kills a component by name, according to verb.
// It waits until a started component is ready. A component that is started
// again has the same ports and data as before.
func (c *cluster) do(ctx context.Context, verb, name string) error {
	i := slices.IndexFunc(c.components, func(it *component) bool { return it.name == name })
	if i < 0 {
		var names []string
		for _, it := range c.components {
			names = append(names, it.name)
		}
		return fmt.Errorf("unknown component %q: want one of %s", name, strings.Join(names, ", "))
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

// stop stops all components, in the reverse order of their start, and removes
// the cluster's files. The S3 server is independent of the others and stops
// concurrently.
func (c *cluster) stop() error {
	var concurrent sync.WaitGroup
	errs := make([]error, len(c.components))
	for i, it := range slices.Backward(c.components) {
		if it.process == nil {
			continue
		}
		if it.name == s3 {
			concurrent.Go(func() { errs[i] = it.process.stop(it.grace) })
			continue
		}
		errs[i] = it.process.stop(it.grace)
	}
	concurrent.Wait()
	c.spawner.close()
	for _, release := range c.release {
		release()
	}
	errs = append(errs, remove(c.files.dir), c.lock.Close())
	return errors.Join(errs...)
}
