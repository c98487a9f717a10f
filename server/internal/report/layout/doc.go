// Package layout renders text: aligned tables, descriptions made of keys and values, times, lists and counts, and the
// JSON and YAML forms of documents. It is independent of custom resources. Text from outside (messages of plugins,
// names from a file) passes Printable or OneLine first, so that it cannot send control sequences to a terminal.
//
// The package imports nothing of the server. Start reading at table.go and description.go.
package layout
