// Package store keeps backups and restores in a bucket, in Velero's layout: the same keys, the same order of uploads
// and the same clean-up on failure. Velero reads a bucket written here, and vice versa.
//
// It uses object storage only through the hub versioning/objectstore, so that plugin processes and built-ins work the
// same. It uses the API types of framework/api; it must not import client-go, controller-runtime or other packages of
// the server, except for foreign, which decodes the files within the limits of limits.go.
//
// Start at layout.go (the keys), then read upload.go, pipe.go, files.go and delete.go. At every moment a reader of the
// bucket sees either a complete backup or no backup: a backup exists if velero-backup.json exists, a deletion removes
// that file first, and an upload completes the archive only after it has stored that file.
package store
