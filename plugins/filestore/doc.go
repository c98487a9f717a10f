// Package filestore is the object store cleat.dev/file: buckets are directories on a file system that
// the server mounts, e.g. a volume on NFS.
//
// A BackupStorageLocation names the directory that holds the buckets in config.path. A bucket is a directory in it,
// which must exist, so that a missing mount is detected. An object is a file at the path of its key. It is written to a
// temporary file beside it, whose name ends in ".tmp", and renamed when it is complete and on disk. A process that is
// killed in between leaves the temporary file behind; deleting the backup removes it with the backup's other files.
//
// Signed URLs are file:// URLs. They do not expire and work only where the same file system is mounted.
//
// The package may import framework and the Go CDK. Start with store.go.
package filestore
