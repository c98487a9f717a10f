// Package dryrun has the results of a dry run of a backup or a restore: its texts, and its file in the object storage.
//
// A restore writes an Outcome for each item (outcome.go), a backup a Collection (collection.go), both as FileName. The
// engines make them, the command line shows them. The package imports nothing of the server. actions.go decides which
// actions a dry run calls.
package dryrun
