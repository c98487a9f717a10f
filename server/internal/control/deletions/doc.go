// Package deletions does what DeleteBackupRequests ask for: it deletes a backup with its restores and its files in the
// object storage.
//
// A deletion may be repeated from its start: what is needed for another try is deleted last. It may import package run
// and the object storage. Start reading at Controller.Reconcile; deleteStored (stored.go) deletes what the files name
// outside of the bucket, as far as it is proven to be the backup's (proof.go), and then the files.
package deletions
