// Package world fills a cluster with objects of many kinds, takes snapshots of them, and compares the snapshots before
// a backup and after a restore. The demo, the acceptance tests and the benchmarks use it.
//
// Start with Build, which lists the objects, then Client.Create, Client.Snapshot and Compare. The package imports
// client-go and no package of the server: it uses the API server as the tools of a user do.
package world
