// Package storage has the storages of repositories: a directory, or a folder of a bucket in S3. The blobs have the names
// that Velero gives them.
//
// kopia opens a repository by a config file, which has the location with its keys. Registered gives it a file with
// nothing but a token: no credentials are on disk, and those of S3 can change while a repository is open.
//
// Start reading at registered.go; s3.go refreshes credentials, freed.go counts what maintenance deletes.
package storage
