// Package restores takes Restores from New to their final phase: it validates and starts them, runs the engine, stores
// the log and the results, and deletes the files of a restore that is deleted.
//
// It may import package run, the restore engine, the object storage and the plugin host. Start reading at
// controller.go; run.go is one restore at work, finalizer.go its end.
package restores
