// Package node is a Kubernetes node on a machine that has none: a kubelet, containerd, runc and CNI plugins, in mount,
// network, PID, IPC and UTS namespaces of their own. Pods run as on any node: with volumes, network, logs and exec.
//
// The first process of the namespaces is this program again, in Main. When it ends for any reason, the node ends: the
// kernel kills all processes of the namespaces, and their mounts and interfaces vanish. Control groups and loop
// devices remain in the kernel, until Remove removes them. The node does not change the machine otherwise: it has
// directories of its own over /run, /var/lib and /var/log, and sets no kernel parameters.
//
//	probe.go       Check returns why the machine cannot run a node
//	debian.go      gets programs that are not Go modules from Debian packages, without installing them
//	config.go      the configuration from the launcher, and the files that configure the programs of the node
//	main_linux.go  the first process: prepares, starts the programs, and reaps
//	mounts_linux.go, network_linux.go, cgroups_linux.go, loops_linux.go  their parts
//	forward.go     connections between the machine and the node, through Unix sockets, which have no network namespaces
//	image.go       the image of the sandbox of pods
package node
