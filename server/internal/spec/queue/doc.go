// Package queue computes the queue of backups from the Backups alone, and the writes that carry out a decision about
// it. It makes no requests: the controller in backupqueue reads the Backups, asks a policy and writes. Commands that
// simulate or explain the queue use it as well.
//
//   - line.go: which backups wait, are ready or run
//   - resolver.go: a backup as an admission policy sees it, with its namespaces resolved
//   - plan.go: the writes that carry out a decision, one for each Backup that changes
//   - positions.go: which positions are written, and when an old one is good enough
//
// It may import the API types, the hub of QueueAdmission and the filters. Start reading at line.go.
package queue
