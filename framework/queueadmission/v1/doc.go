// Package v1 is the kind QueueAdmission in its version 1: a policy that decides which queued backups may start. It runs
// in this project's server only; stock Velero does not list it. The server calls the policy that its config names.
//
// Start reading at admission.go, the author's interface; input.go and output.go hold its types, rules.go what an output
// must keep. server.go and codec.go put it on the wire.
package v1
