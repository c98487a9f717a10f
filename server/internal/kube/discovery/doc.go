// Package discovery lists the resources that an API server serves and resolves the names that users write for them.
//
// Start with Snapshot, the immutable result of one discovery. Helper takes snapshots, one for all concurrent callers. A
// snapshot contains only the resources that a backup can hold: resources that can be listed, created, read and deleted,
// without subresources, each in the version that the server prefers.
//
// The package imports client-go's discovery client and no other package of the server.
package discovery
