// Package v1 is the kind ObjectStore in its version 1: it keeps the files of backups and restores in buckets of its
// storage system. It runs in this project's server and in stock Velero.
//
// Start reading at store.go, the author's interface; server.go puts it on the wire, stream.go cuts objects into pieces,
// locker.go is for stores whose storage locks objects, which lockserver.go puts on the wire, and behind.go has both ends
// of the connection to a store behind another one.
package v1
