// Package v1 is the kind VolumeSnapshotter in its version 1: it takes snapshots of the volumes of one storage system
// and makes volumes of them. It runs in this project's server and in stock Velero.
//
// Start reading at snapshotter.go, the author's interface; server.go puts it on the wire.
package v1
