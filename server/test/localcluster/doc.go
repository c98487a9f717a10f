// Command localcluster runs a Kubernetes control plane and an S3 server on a
// machine that only has Go: etcd, kube-apiserver, kube-controller-manager and
// versitygw, each built once from its Go module. With -node there are a scheduler
// and a kubelet too, which run pods (package node); without, pods stay pending,
// and everything else works as in any cluster.
//
// Start reading at main.go, which has the commands. binaries.go and build.go
// build the programs, cluster.go starts them as a cluster, process.go runs one
// process, and serve.go has the protocol that tests use. The package only
// imports the standard library, so that the launcher itself builds in a second.
package main
