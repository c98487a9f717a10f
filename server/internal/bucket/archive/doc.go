// Package archive writes and reads the archive of a backup: a plain tar.gz in Velero's layout, with one JSON file for
// each object (path.go).
//
// Writer streams an archive out while the backup runs. Open streams an archive in, into one spool file with an index in
// memory, and validates everything that it reads; Walk does so with one object after the other, and keeps none. Rewrite
// copies an archive as a stream, with some of its objects changed. Start at writer.go, archive.go and rewrite.go.
//
// A path names an object, and so does the object itself; whoever uses an object makes sure that they agree
// (identity.go).
//
// The package may import compression libraries and the group-resource type of apimachinery, and of the server what
// reads metadata.
package archive
