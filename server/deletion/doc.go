// Package deletion calls the DeleteItemActions of plugins for the items of a backup that is being deleted, before its files are.
// Start with Run in engine.go.
//
// Like the engines of backup and restore, it takes everything as arguments and keeps no state.
package deletion
