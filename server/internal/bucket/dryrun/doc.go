// Package dryrun has the result of a dry run of a backup: its texts, and its file in the object storage.
//
// A backup writes a Collection (collection.go), a restore the items of package outcome, both as FileName. The engines
// make them, the command line shows them. The package imports nothing of the server. actions.go decides which actions a
// dry run calls.
package dryrun
