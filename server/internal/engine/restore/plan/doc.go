// Package plan decides which objects a restore writes and in which order. It reads the index of an archive, not its
// objects, and sends no requests. selection.go has the filters and the mapping of namespaces, server.go the objects
// that are omitted because a server depends on them, priorities.go the order of the resources, order.go the order of
// the objects, and gates.go and gated.go what waits for a webhook, an aggregated API or a definition. These are the
// only objects of which the package reads more.
//
// The package imports the server's archive (for its entries), discovery and filter.
package plan
