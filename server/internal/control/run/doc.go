// Package run holds what a backup and a restore at work have in common: the phases that they may take, the one
// conditional write that changes a phase, their progress, what ends one early, and who runs one,
// so that a run that a former server left in progress is taken up exactly once.
//
// Every phase is written to the API server before its work begins, by one write, on the condition that no other client
// has changed the object. So the custom resources and the object storage are the whole state, and a server that dies at
// any line is continued by the next one.
//
// A server that was stopped and goes on, or that has lost the connection to the API server, may have a successor. Three
// things keep it from doing harm: the fence, which every write of the process waits for; the claim, a value in each run
// that only the process that started it can have written; and the condition of every write of a phase.
//
// Start reading at backup_phases.go, the table of what may follow what; then advance.go, the write, runs.go, the
// runs of this process, claim.go and fence.go.
//
// It may import the API types, the object storage, the plugin host and kubeapi. The controllers import it; it knows
// none of them.
package run
