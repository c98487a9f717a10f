// Package roundtrip makes a backup and a restore like a user: it fills a cluster, runs the cleat server with a plugin
// directory and an S3 bucket, backs up with the CLI, deletes everything, restores with the CLI, and compares all
// objects. The demo prints the steps, and a test requires that there are no differences.
//
// Start with Run in roundtrip.go. Two more scenes of the demo follow it: Queue shows several backups in the queue, and
// Movers the operations of two data movers. PodVolumes, a scene of its own, shows volumes of running pods. The package
// imports server/test/world and server/test/controlplane, and runs the server and the controller of a mover as
// processes.
package roundtrip
