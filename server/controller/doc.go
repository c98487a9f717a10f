// Package controller drives the custom resources: it takes a Backup, a Restore or a request from
// one phase to the next, and lets the engines, the plugins and the object storage do the work.
//
// Every phase is written to the API server before its work begins, by one write, on the condition
// that nobody else changed the object meanwhile. So the custom resources and the bucket are the
// whole state: a server that dies at any line is continued by the next one, which finishes what
// was in progress off with a reason (recovery.go) and goes on with everything else.
//
// Start reading at backup_phases.go, the table of what may follow what; then backup.go, which
// starts and runs backups, backup_finalizer.go, and deletion.go. The files for restores mirror
// them, schedule.go makes backups in time. advance.go holds the one way to write a phase, operations.go what ends a running
// operation early. manager.go puts all controllers together.
//
// It may import the engines, the store, the plugin host and the API types; the engines do not
// know it.
package controller
