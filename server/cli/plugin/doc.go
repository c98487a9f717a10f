// Package plugin holds the commands about plugins: of a running server, of a plugin directory (source.go chooses
// between them), the lock of a directory, the project of a new plugin, and the test of a plugin against its contracts.
//
// Start reading at plugin.go.
package plugin
