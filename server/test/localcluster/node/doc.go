// Package node is a Kubernetes node on a machine that has none: a kubelet, containerd, runc and CNI plugins, in mount,
// network, PID, IPC and UTS namespaces of their own. Pods run as on any node: with volumes, network, logs and exec.
//
// The first process of the namespaces is this program again, in Main. Whatever ends it ends the node: the kernel kills
// all processes of the namespaces, and their mounts and interfaces vanish. What the kernel keeps, control groups and
// loop devices, Remove removes. The node does not touch the machine otherwise: it has directories of its own over /run,
// /var/lib and /var/log, and sets no kernel parameters.
//
//	probe.go       Check says why the machine cannot run a node
//	debian.go      gets programs that are no Go modules from Debian packages, without installing them
//	config.go      what the launcher tells the node, and the files that configure its programs
//	main_linux.go  the first process: prepares, starts the programs, and reaps
//	mounts_linux.go, network_linux.go, cgroups_linux.go, loops_linux.go  their parts
//	forward.go     connections between the machine and the node, through Unix sockets, which know no network namespaces
//	image.go       the image of the sandbox of pods
package node
