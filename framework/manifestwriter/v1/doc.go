// Package v1 is the kind ManifestWriter in its version 1: it gets every item of a backup and writes files that
// describe it. It runs in this project's server only; stock Velero does not see it. The server asks those that its
// config names.
//
// Start reading at writer.go, the author's interface; server.go puts it on the wire, output.go cuts artifacts into
// messages.
package v1
