// Package v1 is the kind LoadSoothing in its version 1: a policy that decides when the movement of a volume's data may
// begin to prepare. It runs in this project's server only; stock Velero does not see it. The node agents ask the one
// that their config names.
//
// Start reading at soothing.go, the author's interface; server.go puts it on the wire.
package v1
