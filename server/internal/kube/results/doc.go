// Package results holds the errors and warnings of one backup or restore, as Velero stores them in the files
// <name>-results.gz and restore-<name>-results.gz.
//
// Start reading at Results, which is the content of the file. A Collector collects results from several goroutines, and
// a Message renders an error about one object. The package imports only the standard library.
package results
