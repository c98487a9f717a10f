// Package outcome has the file that tells what became of each item of a restore, or would in a dry run.
//
//	Item   item.go   what became of an item, in which wave it was, and what it waited for
//	Plan   plan.go   the order of the items: waves, and what waits for what
//	Writer file.go   writes the file, Read reads it
//	Spool  spool.go  the file while the restore is at work
//	match.go         finds the item that a user has named
//
// The engine makes them, and the command line shows them. The package imports the names of items only.
package outcome
