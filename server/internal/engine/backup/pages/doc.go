// Package pages reads lists of objects from the API server page by page, ahead of the code that consumes them, as raw
// JSON and within bounds of memory.
//
// Start with Reader.Each. The package imports kubeapi, discovery and item, but no other package of the backup.
package pages
