// Package loadsoothing is the kind LoadSoothing as the server uses it:
//
//   - hub.go: the hub, in the newest shape of the kind; its types are those of the newest version in framework
//   - v1.go: lifts version 1 of the wire to it
//
// It imports the protos, framework and versioning, never the server. Start reading at hub.go.
package loadsoothing
