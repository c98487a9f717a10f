// Package itemlist is the manifest writer cleat.dev/item-list: the file items.jsonl beside a backup, with one line of
// JSON for each item in the order in which they are in the archive. An item that was written again has a second line,
// which counts. With config.labels a line has the item's labels too.
//
// The package may import framework. Start with writer.go.
package itemlist
