// Package v1 is the kind DataMover in its version 1: it moves the data of volumes into repositories and back. It runs in this
// project's node agent only; stock Velero does not see it.
//
// Start reading at mover.go, the author's interface; volume.go and repository.go say what its calls are about, server.go
// puts it on the wire, reporter.go sends its progress.
package v1
