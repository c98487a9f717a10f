package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Addresses of the node. They are the same in all clusters, because the network of a node is separate.
const (
	// Address is the address of the node, and of S3 and the API server for pods.
	Address = "10.99.0.1"
	// ServiceAddress is the address of the service kubernetes.
	ServiceAddress = "10.98.0.1"
	podNetwork     = "10.88.0.0/16"
	sandboxImage   = "localcluster.invalid/pause:1"
)

// Config is the configuration of a node.
type Config struct {
	Name       string   `json:"name"` // of the node
	Dir        string   `json:"dir"`  // of its files
	Logs       string   `json:"logs"`
	Packages   string   `json:"packages"` // the directory to which Unpack has unpacked
	Kubelet    string   `json:"kubelet"`  // program
	Kubeconfig string   `json:"kubeconfig"`
	Forwards   []Tunnel `json:"forwards"`
	// TryOnly makes Main end after the preparation.
	TryOnly bool `json:"tryOnly"`
}

// Tunnel is a TCP address in the node, whose connections are forwarded to a Unix socket.
type Tunnel struct {
	Address string `json:"address"`
	Socket  string `json:"socket"`
}

func (c Config) in(name string) string { return filepath.Join(c.Dir, name) }

// group is the name of the node's control groups.
func (c Config) group() string { return c.Name + groupSuffix }

// Path is the path of the file that Write writes.
func (c Config) Path() string { return c.in("config.json") }

// Kubelets is the directory of /var/lib/kubelet in the node. The kubelet's mounts there are visible in the node only.
func (c Config) Kubelets() string { return c.in("kubelet") }

// Containerd is the socket of containerd.
func (c Config) Containerd() string { return c.in("containerd.sock") }

// Proxy is the socket of a proxy through which the API server connects to the node.
func (c Config) Proxy() string { return c.in("proxy.sock") }

// Ctr is the command line client of containerd.
func (c Config) Ctr() string { return filepath.Join(c.Packages, "containerd", "usr", "bin", "ctr") }

// Write creates the directory of the node, with all files that configure it.
func (c Config) Write() error {
	for _, dir := range []string{c.Dir, c.Kubelets(), c.in("cni"), c.in("pod-logs"), c.in("kubelet-plugins")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating the directory of the node: %w", err)
		}
	}
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	kubelet, err := json.Marshal(c.kubeletConfig())
	if err != nil {
		return err
	}
	network, err := json.Marshal(networkConfig())
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{c.Path(): config, c.in("kubelet.json"): kubelet,
		c.in("cni/10-node.conflist"): network} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("configuring the node: %w", err)
		}
	}
	return writeSandboxImage(c.in("pause.tar"))
}

type object = map[string]any

func (c Config) kubeletConfig() object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication":           object{"anonymous": object{"enabled": true}, "webhook": object{"enabled": false}},
		"authorization":            object{"mode": "AlwaysAllow"}, // only trusted clients reach the network of the node
		"containerRuntimeEndpoint": "unix://" + c.Containerd(),
		"cgroupDriver":             "cgroupfs", "cgroupRoot": "/" +
			c.group(), "failCgroupV1": false, "enforceNodeAllocatable": []string{},
		"podLogsDir": c.in("pod-logs"), "volumePluginDir": c.in("kubelet-plugins"),
		// The disk, the memory and the firewall belong to the machine.
		"failSwapOn": false, "oomScoreAdj": 0, "makeIPTablesUtilChains": false, "resolvConf": "",
		"evictionHard": object{"imagefs.available": "0%", "imagefs.inodesFree": "0%", "nodefs.available": "0%",
			"nodefs.inodesFree": "0%"},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99, "localStorageCapacityIsolation": false,
		"syncFrequency": "10s", "clusterDNS": []string{"127.0.0.1"}, // none: without an address, each turn writes an event
		"volumeStatsAggPeriod": "0s",
	}
}

func (c Config) kubeletArgs() []string {
	return []string{
		"--config=" + c.in("kubelet.json"), "--kubeconfig=" + c.Kubeconfig, "--hostname-override=" + c.Name, "--node-ip=" +
			Address,
		"--cert-dir=" + c.in("kubelet-certificates"),
	}
}

// networkConfig has a bridge. The tunnels are the only way out.
func networkConfig() object {
	return object{
		"cniVersion": "0.4.0", "name": "node",
		"plugins": []object{{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
			"ipam": object{"type": "host-local", "ranges": [][]object{{{"subnet": podNetwork}}},
				"routes": []object{{"dst": "0.0.0.0/0"}}},
		}},
	}
}

// containerdConfig has a snapshotter that the file system of the directory supports.
func (c Config) containerdConfig(snapshotter string) string {
	return fmt.Sprintf(`version = 2
root = %[1]q
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = %[2]q
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %[3]q
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %[4]q
conf_dir = %[5]q
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = %[6]q
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = %[7]q
SystemdCgroup = false
`, c.in("containerd"), c.Containerd(), sandboxImage, filepath.Join(c.Packages, "containernetworking-plugins/usr/lib/cni"), c.in("cni"), snapshotter,
		filepath.Join(c.Packages, "runc/usr/sbin/runc"))
}
