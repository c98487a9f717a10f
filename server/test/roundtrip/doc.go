// Package roundtrip does the main job on real input, as a user would: it fills a cluster, runs the cleat server
// with a plugin directory and an S3 bucket, backs up with the CLI, deletes everything, restores with the
// CLI, and compares object by object. The demo prints it; a test asserts it.
//
// Queue, for the demo, shows many backups at once.
//
// Start with Run in roundtrip.go.
package roundtrip
