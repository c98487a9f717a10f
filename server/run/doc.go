// Package run holds what a backup and a restore at work have in common: the phases that they may take, the one
// conditional write that changes a phase, their progress, what ends one early, and what is done about those that a
// former server left in progress.
//
// Every phase is written to the API server before its work begins, by one write, on the condition that no other client has
// changed the object. So the custom resources and the object storage are the whole state, and a server that dies at any
// line is continued by the next one.
//
// Start reading at backup_phases.go, the table of what may follow what; then advance.go, the write, and runs.go, the
// runs of this process.
//
// It may import the API types, the object storage, the plugin host and kubeapi. The controllers import it; it knows none of them.
package run
