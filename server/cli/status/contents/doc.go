// Package contents answers what is in a backup, from its manifest, for the commands and for pages: without a client,
// and in memory that does not grow with the number of items.
//
//	Manifest    manifest.go   the file of a manifest, which is read in blocks
//	Selection   selection.go  the filters of a backup, and the text of a search
//	index       index.go      what each block has, in temporary files: which blocks a question need not read
//	List        list.go       items, in pages
//	Tree        tree.go       namespaces, resources, and how many items they have, in pages
//	Item, Why   item.go why.go  one item, what depends on it, and how it came into the backup
//	Diff        diff.go       in which items two backups differ, in pages
//	Graph       graph.go      what depends on what, as a drawing
//
// An index only says which blocks may have what is asked for: every answer comes from the items themselves.
//
// Names in a manifest are foreign text; who prints them escapes them. Start reading at manifest.go.
package contents
