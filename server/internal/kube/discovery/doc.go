// Package discovery lists the resources that an API server serves and resolves the names that people write for them.
//
// Start with Snapshot, the immutable result of one discovery. Helper takes snapshots, one for callers that ask at the
// same time. A snapshot contains only the resources that a backup can hold: those that can be listed, created, read and
// deleted, without subresources, each in the version that the server prefers.
//
// The package imports client-go's discovery client and no other package of the server.
package discovery
