// Package csidriver is a CSI driver for tests: its volumes and snapshots are directories, so that their bytes can be
// compared. It makes volumes, snapshots, and volumes of snapshots, and mounts them in pods of a node
// (controlplane.Options.Node): directories, and block devices, each a file in its directory. Tests only.
//
// Serve serves what the controllers of a control plane call, and ServeNode what a kubelet calls. A driver keeps no
// state outside its directory but the block devices that are in use. The classes of a test say by parameters how
// snapshots behave, see MadeWith.
package csidriver
