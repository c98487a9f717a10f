// Package engine moves the files of a directory into a bucket and back. It depends neither on Kubernetes nor on
// plugins.
//
// A snapshot is a folder of the bucket:
//
//	packs/<sha256>   up to 8 MiB of content, named after it: many small files, or a part of a large one
//	index/<sha256>   the chunks in a pack; written after it
//	manifest.json    all files, directories and symbolic links, with their chunks; written last
//
// A chunk is a piece of a file, or the whole file. A backup that was interrupted begins with the indexes: chunks of
// unchanged files are not read and sent again. A restore that was interrupted compares the content of the directory
// with the SHA-256 of each chunk and fetches the rest. A pack is verified before any of it is written.
//
// Start reading at snapshot.go, the format; then backup.go and restore.go.
package engine
