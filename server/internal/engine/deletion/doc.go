// Package deletion removes what a backup has beside its files, before the files are deleted: it calls the
// DeleteItemActions of plugins for its items (Run in engine.go, where to start), and removes its snapshots
// (snapshots.go) and the data of its volumes (volumes.go).
//
// Like the engines of backup and restore, it takes everything as arguments and keeps no state.
package deletion
