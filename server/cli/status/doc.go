// Package status composes what users read about backups, restores, schedules and the queue: documents, which are also
// printed as JSON and YAML, the tables and descriptions of these documents, and single sentences.
//
// It consists of functions of custom resources and reports, without a client and without a command line, so a web page
// can use it as well. Its neighbor pluginstatus composes the documents about plugins. Package layout has the tables and
// descriptions as such, and package serverreport has the reports that a server publishes. Start reading at queue.go and
// backup_description.go.
package status
