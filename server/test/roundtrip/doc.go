// Package roundtrip makes a backup and a restore as a user would: it fills a cluster, runs the cleat server with a plugin directory
// and an S3 bucket, backs up with the CLI, deletes everything, restores with the CLI, and compares all objects. The demo prints
// the steps, and a test requires that there are no differences.
//
// Start with Run in roundtrip.go. Queue shows several backups in the queue, for the demo. The package imports server/test/world and
// server/test/controlplane, and runs the server as a process.
package roundtrip
