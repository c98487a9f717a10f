// Package controlplane starts a Kubernetes control plane and an S3 server for
// tests and benchmarks. It builds the launcher in server/test/localcluster, runs
// it, and sends it commands.
//
// A test package declares
//
//	var plane controlplane.Shared
//
//	func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }
//
// and its tests call plane.Get(t). The first call starts a cluster, which all
// tests of the package share. It stops when the test binary exits, even if that
// is killed. Each test uses its own namespace or bucket; a test that stops
// components starts its own cluster with Start.
//
// The package may only import the standard library and package programs. Start
// reading at cluster.go; shared.go implements Shared.
package controlplane
