// Package v1 is the kind DeleteItemAction in its version 1: an action gets the items of a backup that is being deleted,
// and removes the data of the backup in other places. It runs in this project's server and in stock Velero.
//
// Start reading at action.go, the author's interface; server.go puts it on the wire.
package v1
