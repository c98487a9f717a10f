// Package verify reads a backup in a bucket and says what is missing, changed, added or swapped: by the checksums
// beside it, by what the cluster has noted of its files, and for a backup without either by what can be read. It keeps
// no file in memory.
//
// The package may import store, archive, trust and the API types. Start reading at Run.
package verify
