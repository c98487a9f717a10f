// Package backupqueue lets backups start: it moves Backups from New to Queued and, when the admission policy admits
// them, to ReadyToStart.
//
// The Backups are its whole state. Every decision is made on one view of all of them and carried out by one
// conditional write for each Backup that changes. Start reading at controller.go; view.go holds the state of the
// Backups, and watch.go the events that lead to a decision. Positions are written in pauses between events (pace.go).
// Backups whose storage location is not available (locations.go) and Backups that cannot be written (refusals.go,
// slots.go) do not hold up the others. blockers.go returns the backups for which another one waits.
//
// It may import packages run, queue and policy. The tests compare the controller with the rules of rules_test.go,
// which share only settings with it: model_test.go takes random steps, observer_test.go checks every change. A few
// dozen sequences run against a real API server (plane_test.go), and thousands against one in memory (memory_test.go),
// which likeness_test.go compares with the real one.
package backupqueue
