// Package plan decides which objects a restore brings back and in which order. It looks at the index of an archive,
// not at its objects, and sends no requests. selection.go has the filters and the mapping of namespaces,
// server.go what is left alone because a server lives on it, priorities.go the order of the resources.
//
// The package imports the server's archive (for its entries), discovery and filter.
package plan
