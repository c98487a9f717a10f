// Package store keeps backups and restores in a bucket, in Velero's layout: the same keys, the same
// order of uploads, the same clean-up on failure. A bucket written here is read by Velero and the other
// way round.
//
// It sees object storage through the hub versioning/objectstore only, so it works the same over a plugin
// process and over a built-in. It knows the API types of framework/api; it must not import client-go,
// controller-runtime or other packages of the server.
//
// Start with layout.go (what lies where), then upload.go (how a backup gets there) and delete.go (how it
// goes away). At every moment a reader of the bucket sees a whole backup, or one that is not there:
// velero-backup.json is what makes a backup exist, it is the first thing that is removed, and the archive
// is held back until velero-backup.json is stored.
package store
