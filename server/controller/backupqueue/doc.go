// Package backupqueue lets backups start: it takes Backups from New to Queued and, when the admission policy admits them,
// to ReadyToStart.
//
// The Backups are its whole state. Every decision is made on one view of all of them and carried out by one conditional
// write for each Backup that changes. Start reading at controller.go; view.go is what the queue knows of the Backups, and
// watch.go what makes it decide.
//
// It may import packages run, queue and policy. The tests hold the controller against the rules of rules_test.go, which
// share nothing with it: model_test.go takes random steps on a real API server, observer_test.go judges every change.
package backupqueue
