// Package manifestwriter is the kind ManifestWriter as the server uses it:
//
//   - hub.go: the hub, in the newest shape of the kind
//   - v1.go: lifts version 1 of the wire to it
//   - artifacts.go: artifacts that come in pieces
//   - validate.go: the rules that an artifact must keep
//
// It imports the protos, framework and versioning, never the server. Start reading at hub.go.
package manifestwriter
