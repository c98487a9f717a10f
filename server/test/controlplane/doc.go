// Package controlplane gives tests and benchmarks a real Kubernetes control
// plane and a real S3 server: it builds the launcher in
// server/test/localcluster, runs it, and speaks its protocol.
//
// A test package states once
//
//	var plane controlplane.Shared
//
//	func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }
//
// and its tests call plane.Get(t). The cluster starts with the first test that
// asks, serves the whole package, and is gone when the test binary ends, even
// if that is killed. Tests keep apart by a namespace or a bucket each; a test
// that stops components has a cluster of its own, from Start.
//
// It may import the standard library only. Read cluster.go first, then
// launcher.go for where the program comes from and shared.go for the above.
package controlplane
