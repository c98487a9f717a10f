// Package csidriver is a CSI driver for tests: its volumes and snapshots are directories, so that their bytes can be
// compared. It makes volumes, snapshots, and volumes from snapshots, and mounts them in pods of a node
// (controlplane.Options.Node): directories, and block devices, each a file in its directory. Tests only.
//
// Serve implements the calls of the controllers of a control plane, and ServeNode the calls of a kubelet. A driver
// keeps no state outside its directory except the block devices in use. Parameters of the classes of a test determine
// the behavior of snapshots, see MadeWith.
package csidriver
