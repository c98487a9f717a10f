// Package manifest is the object graph manifest of a backup: its objects, with the properties by which they are
// selected, and their dependencies. A backup has it in the file NAME-manifest.json.gz beside its archive, so that
// readers need not read the archive for its contents.
//
//	Manifest            document.go         all items of a backup in memory
//	Item                item.go             one object, with its edges to others
//	Writer, Reader      writer.go reader.go item by item, in memory that does not grow with their number
//	File                file.go             single items of a file, by ranges
//	Diff, Overlap       sets.go             what several manifests have in common
//	Graph               graph.go waves.go   what depends on what, and an order for it, by package order
//
// # The file
//
// The file is compressed with gzip, and its content is one JSON document, which Schema describes: a header, the items
// sorted by group, resource, namespace, name and version, one on each line, an index, and the number of items. Its
// bytes depend on the header and the items alone.
//
// It consists of several members of gzip, so that parts can be read alone: the header, blocks of items, parts of the
// index, each with a line for each of some blocks, and the list of these parts. A last member is empty, and says in an
// extra field (id "CI": the version in four bytes, then offset and length in eight each, little-endian) where that list
// is. So one request for the end of the file and one for a block find an item. A document that is compressed anew loses
// only that.
//
// Readers of a version accept fields that they do not know. A file of a higher version is an error.
//
// Start reading at item.go.
package manifest
