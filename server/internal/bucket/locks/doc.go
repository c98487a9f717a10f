// Package locks has what the bucket of a location locks: as an annotation of the BackupStorageLocation, and in words.
//
// The package may import framework/api and the hub of object stores. Start reading at locks.go.
package locks
