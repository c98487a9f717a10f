// Package itemlist is the manifest writer cleat.dev/item-list. It writes the file items.jsonl beside a backup, with one
// line of JSON for each item in the order of the archive. An item that was written again has a second line, which
// replaces the first. With config.labels a line includes the item's labels.
//
// The package may import framework. Start with writer.go.
package itemlist
