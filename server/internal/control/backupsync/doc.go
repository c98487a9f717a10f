// Package backupsync creates Backups for the backups in the object storage, as Velero does: each backup of a bucket
// that the cluster does not have gets a Backup, and a Backup whose files no longer exist is deleted. So another
// cluster can restore from the bucket, and a cluster that was lost can be set up again.
//
// It may import package run and the object storage. Start reading at controller.go; pass.go is one pass over one
// bucket.
package backupsync
