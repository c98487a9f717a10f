// Package v1 is the kind AsyncRestoreItemAction in its version 1: an action starts work on items that are restored, a
// data mover for instance, which the server follows until it has ended. It runs in this project's server only;
// stock Velero does not see it.
//
// Start reading at action.go, the author's interface; server.go puts it on the wire.
package v1
