// Package site is the fixture of the tests that run servers: an installation with a namespace, a location and a bucket
// of its own, for commands and server processes, and the proxies between these and the API server or S3.
//
// A package of such tests declares
//
//	func TestMain(m *testing.M) { os.Exit(site.Main(m)) }
//
// and its tests call New. Shared is the control plane of all sites, unless NewIn gets another one.
//
// The package may import server/app, the rooms whose files and objects it reads, and the packages of server/test.
// Start reading at site.go and server.go; runs.go begins and awaits backups and restores, gate.go and wire.go stop
// requests, and works.go and witnesses.go run plugins that the test controls.
package site
