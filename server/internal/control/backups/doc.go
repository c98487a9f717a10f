// Package backups takes Backups that the queue has admitted to their final phase: it validates and starts them, runs
// the engine, and stores the archive with its files.
//
// It may import packages run and queue, the backup engine, the object storage and the plugin host. Start reading at
// controller.go; run.go is one backup at work, ends.go keeps ends that cannot be written yet, finalizer.go is the end,
// partial.go deletes what a failed one has left in the object storage.
package backups
