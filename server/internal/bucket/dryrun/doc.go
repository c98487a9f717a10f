// Package dryrun is what a dry run of a backup or a restore says: its texts, and the file that it leaves in the object
// storage.
//
// A restore writes an Outcome for each item (outcome.go), a backup a Collection (collection.go), both as FileName. The
// engines find them out, the command line shows them. The package imports nothing of the server. actions.go decides
// which actions a dry run calls.
package dryrun
