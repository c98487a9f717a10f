// Package queue is what there is to know and to write about backups that wait for their turn. It holds no state and
// makes no calls: the controller reads the Backups, has a policy decide, and writes.
//
//   - line.go: who waits, is ready or runs, derived from the Backups alone
//   - resolver.go: a Backup as an admission policy sees it, namespaces resolved
//   - plan.go: the writes that carry a decision out, one for each Backup that changes
//
// It may import the API types, the hub of QueueAdmission and the filters; it knows no cluster. Start reading at line.go.
package queue
