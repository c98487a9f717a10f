// Command localcluster runs a real Kubernetes control plane and a real S3
// server on a machine that has nothing but Go: etcd, kube-apiserver,
// kube-controller-manager and versitygw, each built once from its Go module.
// Nothing schedules or runs pods; everything else is what a cluster does.
//
// Read main.go for the commands, binaries.go and build.go for where the
// programs come from, cluster.go for how they become a cluster, process.go for
// how a child starts and dies, and serve.go for the protocol that tests speak.
// The package imports the standard library only, so that building the launcher
// itself costs a second.
package main
