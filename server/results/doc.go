// Package results holds the errors and warnings of one backup or restore: the file that Velero
// keeps beside a backup as <name>-results.gz, and beside a restore as restore-<name>-results.gz.
//
// It imports the standard library only. Start reading at Results, which is the file; a Collector
// gathers it from many goroutines, and a Message renders what went wrong with one object.
package results
