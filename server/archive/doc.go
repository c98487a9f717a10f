// Package archive writes and reads the archive of a backup: a gzip-compressed tar with one JSON file for
// each object, in Velero's layout (path.go, reader_path.go).
//
// Writer streams it out while the backup runs. Open streams it in, to one spool file with an index in
// memory, and trusts nothing that it reads. Start there.
//
// The package imports compression and the group-resource type of apimachinery, nothing of the server.
package archive
