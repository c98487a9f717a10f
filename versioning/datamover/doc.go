// Package datamover is the kind DataMover as the node agent uses it:
//
//   - hub.go: the hub, in the newest shape of the kind; its types are those of the newest version in framework
//   - v1.go: lifts version 1 of the wire to it
//   - stream.go: follows one call from its first progress to its result
//
// It imports the protos, framework and versioning, never the server. Start reading at hub.go.
package datamover
