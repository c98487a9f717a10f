// Package filestore is the object store cleat.dev/file: buckets are directories on a file system that
// the server mounts, e.g. a volume on NFS.
//
// A BackupStorageLocation names the directory that holds the buckets in config.path; the bucket is a
// directory in it, which must exist, so that a volume that was not mounted is found out. An object is a
// file at its key's path. It is written to a temporary file beside it, ending in ".tmp", that is renamed
// when it is whole and on disk; a process that is killed in between leaves that file behind, and it goes
// with the other files of the backup when this is deleted.
//
// Signed URLs are file:// URLs. They do not expire and only help who has the same file system mounted.
//
// The package may import framework and the Go CDK. Start with store.go.
package filestore
