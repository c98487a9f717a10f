// Package v1 is the kind QueueAdmission in its version 1: a policy that decides which queued backups may start. It runs
// in this project's server only; stock Velero does not see it. The server asks the one that its config names.
//
// Start reading at admission.go, the author's interface; snapshot.go and decision.go are what it gets and answers,
// server.go puts it on the wire.
package v1
