// Package world makes a cluster that is worth backing up, remembers what was in it, and compares that with
// what is there after a restore. The demo, the acceptance tests and the benchmarks share it.
//
// Start with Build (the objects), then Client.Create, Client.Snapshot and Compare. The package knows nothing
// of the server: it talks to the API server as a user's tools do.
package world
