// Package run holds the common parts of running backups and restores: their possible phases, the one conditional write
// that changes a phase, their progress, the causes of an early end, and the claim of the process that runs one, so
// that a run that a former server left in progress is taken up exactly once.
//
// Every phase is written to the API server before its work begins, by one write, on the condition that no other client
// has changed the object. So the custom resources and the object storage are the whole state. If a server dies at any
// line, the next one continues.
//
// A server that was suspended and resumes, or that has lost the connection to the API server, may have a successor.
// Three things prevent damage: the fence, for which every write of the process waits; the claim, a value in each run
// that only the process that started it can have written; and the condition of every write of a phase.
//
// Start reading at backup_phases.go, the table of transitions; then advance.go, the write, runs.go, the runs of this
// process, claim.go and fence.go.
//
// It may import the API types, the object storage, the plugin host and kubeapi, but no controller.
package run
