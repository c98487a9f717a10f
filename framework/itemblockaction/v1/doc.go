// Package v1 is the kind ItemBlockAction in its version 1: an action returns the items that must be backed up together.
// It runs in this project's server and in stock Velero.
//
// Start reading at action.go, the author's interface; server.go puts it on the wire.
package v1
