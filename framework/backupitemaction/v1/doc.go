// Package v1 is the kind BackupItemAction in its version 1: an action gets items while they are backed up and may
// change the stored items. It runs in this project's server and in stock Velero.
//
// Start reading at action.go, the author's interface; server.go puts it on the wire.
package v1
