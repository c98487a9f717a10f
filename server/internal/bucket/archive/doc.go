// Package archive writes and reads the archive of a backup: a plain tar.gz in Velero's layout, with one JSON file for
// each object (path.go).
//
// Writer streams an archive out while the backup runs. Open streams an archive in, into one spool file with an index in
// memory, and validates everything that it reads; Walk passes one object after the other, and keeps none. Rewrite
// copies an archive as a stream, with some of its objects changed. Start at writer.go, archive.go and rewrite.go.
//
// A path names an object, and so does the object itself; callers compare the two before they use an object
// (identity.go).
//
// The package may import compression libraries and the group-resource type of apimachinery, and the package of the
// server that reads metadata.
package archive
