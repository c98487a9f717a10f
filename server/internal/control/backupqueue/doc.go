// Package backupqueue lets backups start: it takes Backups from New to Queued and, when the admission policy admits
// them, to ReadyToStart.
//
// The Backups are its whole state. Every decision is made on one view of all of them and carried out by one conditional
// write for each Backup that changes. Start reading at controller.go; view.go is what the queue knows of the Backups,
// and watch.go what makes it decide. Positions are written when it is quiet (pace.go). Backups whose storage location
// is not available (locations.go) and those that cannot be written (refusals.go, slots.go) do not hold up the others.
// blockers.go answers questions.
//
// It may import packages run, queue and policy. The tests hold the controller against the rules of rules_test.go, which
// share only settings with it: model_test.go takes random steps, observer_test.go judges every change. A few dozen
// lives take place on a real API server (plane_test.go), and thousands on one in memory (memory_test.go), which
// likeness_test.go compares with the real one.
package backupqueue
