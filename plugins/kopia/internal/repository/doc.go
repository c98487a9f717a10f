// Package repository drives kopia as Velero does: the same format, owner, sources, policies, tags and pins, so that
// Velero reads and continues what this package has stored, and the other way round.
//
// Start reading at open.go. create.go makes repositories, snapshots.go finds and stores snapshots, policy.go has the
// policy of each source, maintain.go and verify.go are the upkeep.
package repository
