// Package v1 is the kind RestoreItemAction in its version 1: an action sees items before they are created in the
// cluster and may change or skip them. It runs in this project's server and in stock Velero.
//
// Start reading at action.go, the author's interface; server.go puts it on the wire.
package v1
