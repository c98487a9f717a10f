// Package v2 is the kind RestoreItemAction in its version 2: what version 1 has, operations that go on after the
// action has answered for the item, and waiting until additional items are ready. It runs in this project's
// server and in stock Velero.
//
// Start reading at action.go, the author's interface; server.go puts it on the wire.
package v2
