// Package restoreitemaction is the kind RestoreItemAction as the server sees it:
//
//   - hub.go: the hub, in the newest shape of the kind
//   - v1.go, v2.go: lift each version of the wire to it
//   - validate.go: the rules that a reply must keep
//
// It imports the protos, framework and versioning, never the server. Start reading at hub.go.
package restoreitemaction
