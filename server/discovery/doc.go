// Package discovery knows which resources an API server serves, and under which names people ask for
// them.
//
// Start with Snapshot: one immutable look at the server. Helper takes snapshots and keeps the last
// one for a while. Only the resources that a backup can hold are in a snapshot: those that can be
// listed, created, read and deleted, without subresources, each in the version the server prefers.
//
// It imports client-go's discovery client and nothing of the rest of the server.
package discovery
