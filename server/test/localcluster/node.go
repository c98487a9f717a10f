package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/server/test/localcluster/debian"
	"github.com/cleat-dev/cleat/server/test/localcluster/node"
)

// nodeDescription is the part of description about the node.
type nodeDescription struct {
	Name       string `json:"name"`
	PID        int    `json:"pid"`        // of its first process, for nsenter and /proc
	Kubelet    string `json:"kubelet"`    // the directory that is /var/lib/kubelet there
	S3Endpoint string `json:"s3Endpoint"` // URL, for pods
	Containerd string `json:"containerd"` // socket
	Ctr        string `json:"ctr"`        // the client of containerd
}

// noNodeError means that the machine cannot run a node.
type noNodeError struct{ reason error }

func (e noNodeError) Error() string {
	return "no node can run here, and tests that need one are skipped: " + e.reason.Error()
}

// ensureNode unpacks the programs of a node that are not built, and checks that it can run. The error is a
// noNodeError.
func ensureNode(ctx context.Context, out io.Writer) error {
	packages, err := debian.Dir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(packages, 0o755); err != nil {
		return err
	}
	lock, err := lockFile(ctx, filepath.Join(packages, "lock"), func() {})
	if err != nil {
		return err
	}
	defer lock.Close()
	err = node.Unpack(ctx, packages, func(name string) { fmt.Fprintf(out, "unpacking %s, once\n", name) })
	if err == nil {
		err = node.Check(ctx, packages)
	}
	if err != nil {
		return noNodeError{err}
	}
	return nil
}

func (c *cluster) nodeConfig(programs map[string]string) (node.Config, error) {
	packages, err := debian.Dir()
	dir, e := c.files.node, c.endpoints
	api, s3 := filepath.Join(dir, "api.sock"), filepath.Join(dir, "s3.sock")
	return node.Config{
		Name: filepath.Base(c.files.dir), Dir: dir, Logs: c.files.logs, Packages: packages, Kubelet: programs[progKubelet],
		Kubeconfig: c.files.kubeconfig,
		Forwards: []node.Tunnel{
			// Programs on the node without a network namespace of their own use the same addresses as on the machine.
			{Address: hostPort("127.0.0.1", e.apiserverPort), Socket: api},
			{Address: hostPort("127.0.0.1", e.s3Port), Socket: s3},
			{Address: hostPort(node.ServiceAddress, 443), Socket: api},
			{Address: hostPort(node.Address, e.s3Port), Socket: s3},
		},
	}, err
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// prepareNode adds the scheduler and the node to the components, and serves the ends of the node's tunnels.
func (c *cluster) prepareNode(programs map[string]string) error {
	config, err := c.nodeConfig(programs)
	if err != nil {
		return err
	}
	if err := config.Write(); err != nil {
		return err
	}
	launcher, err := os.Executable()
	if err != nil {
		return err
	}
	for i, port := range []int{c.endpoints.apiserverPort, c.endpoints.s3Port} {
		listener, err := net.Listen("unix", config.Forwards[i].Socket)
		if err != nil {
			return err
		}
		c.release = append(c.release, func() { _ = listener.Close() })
		go node.Forward(listener, "tcp", hostPort("127.0.0.1", port))
	}
	env := c.components[0].env
	c.components = append(c.components,
		&component{
			name: scheduler, program: programs[progScheduler], env: env, grace: stopGrace,
			ready: func(context.Context) error { return nil },
			args: []string{"--kubeconfig=" + c.files.kubeconfig, "--leader-elect=false", "--secure-port=0",
				"--kube-api-qps=1000", "--kube-api-burst=2000"},
		},
		&component{
			name: nodeName, program: launcher, env: env, grace: stopGrace, args: []string{nodeName, config.Path()},
			ready: func(ctx context.Context) error { return c.nodeReady(ctx, config.Name) },
		})
	return nil
}

// egressFlags returns the flags of the API server of a cluster with a node, whose network it reaches through a proxy
// only.
func egressFlags(f files, o options) []string {
	if !o.node {
		return nil
	}
	return []string{"--egress-selector-config-file=" + f.egress, "--kubelet-preferred-address-types=InternalIP"}
}

// writeEgress writes the file of egressFlags.
func writeEgress(f files) error {
	content, err := json.Marshal(map[string]any{
		"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
		"egressSelections": []any{map[string]any{"name": "cluster", "connection": map[string]any{
			"proxyProtocol": "HTTPConnect", "transport": map[string]any{
				"uds": map[string]any{"udsName": node.Config{Dir: f.node}.Proxy()},
			},
		}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(f.egress, content, 0o600)
}

// nodeReady checks that pods can be scheduled to the node.
func (c *cluster) nodeReady(ctx context.Context, name string) error {
	var n struct {
		Spec   struct{ Taints []struct{ Key string } }
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := c.get(ctx, "/api/v1/nodes/"+name, &n); err != nil {
		return err
	}
	for _, taint := range n.Spec.Taints {
		return fmt.Errorf("the node has the taint %s", taint.Key)
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == "Ready" && condition.Status != "True" {
			return fmt.Errorf("the node is not ready: %s", condition.Message)
		}
	}
	return nil
}

// get reads an object from the API server.
func (c *cluster) get(ctx context.Context, path string, into any) error {
	client, err := c.files.client()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoints.apiserverURL()+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.endpoints.token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: want 200, got %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// describeNode returns nil if there is no node.
func (c *cluster) describeNode() *nodeDescription {
	for _, it := range c.components {
		if it.name == nodeName && it.process != nil {
			config, _ := c.nodeConfig(nil) // debian.Dir has succeeded before
			return &nodeDescription{
				Name: config.Name, PID: it.process.cmd.Process.Pid, Kubelet: config.Kubelets(), Containerd: config.Containerd(),
				Ctr:        config.Ctr(),
				S3Endpoint: strings.Replace(c.endpoints.s3URL(), "127.0.0.1", node.Address, 1),
			}
		}
	}
	return nil
}
