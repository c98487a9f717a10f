// Package restoreitemaction is the kinds RestoreItemAction and AsyncRestoreItemAction as the server sees them, through
// one hub:
//
//   - hub.go: the hub, in the newest shape of the kind
//   - v1.go, v2.go: lift each version of RestoreItemAction to it
//   - async_v1.go: lifts version 1 of AsyncRestoreItemAction to it
//   - validate.go: the rules that a reply must keep
//
// It imports the protos, framework and versioning, never the server. Start reading at hub.go.
package restoreitemaction
