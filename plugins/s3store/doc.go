// Package s3store is the object store cleat.dev/s3, for Amazon S3 and compatible servers.
//
// The keys of a BackupStorageLocation's config are those of the AWS plugin for Velero, see config.go. Credentials come
// from the Secret of spec.credential, an AWS ini file, or else from the server's environment. Uploads of any size are
// streamed in parts of 5 MiB, one of which is in memory. An upload is invisible until it is complete; a failed or
// cancelled one is aborted.
//
// In a bucket with Object Lock, lock.go locks what is to be kept, and versions.go deletes versions and sees through
// delete markers.
//
// The package may import framework, the Go CDK and the AWS SDK. Start with store.go; errors.go turns errors of S3 into
// advice on what to check.
package s3store
