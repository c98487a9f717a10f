// Package s3store is the object store cleat.dev/s3: Amazon S3 and whatever speaks its protocol.
//
// The keys of a BackupStorageLocation's config are those of the well-known AWS plugin for Velero, see
// config.go. Credentials come from the Secret of spec.credential, an AWS ini file, or else from the
// server's environment. Uploads of any size stream in parts of 5 MiB, one of which is in memory; they are
// invisible until they are whole, and one that fails or is cancelled is taken back.
//
// The package may import framework, the Go CDK and the AWS SDK. Start with store.go; errors.go turns what
// S3 says into what to check.
package s3store
