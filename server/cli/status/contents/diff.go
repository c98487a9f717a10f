package contents

import (
	"context"
	"errors"
	"iter"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// Changes is a page of the items in which two backups differ.
type Changes struct {
	Changes []Change `json:"changes"`
	// Next asks for the page after this one. A page can have fewer changes than it may, or none, and a Next: then no more
	// were found in the time that a page may take.
	Next string `json:"next,omitempty"`
}

// Change is an item in which two backups differ.
type Change struct {
	Change manifest.ChangeType `json:"change"`
	Before *manifest.Item      `json:"before,omitempty"`
	After  *manifest.Item      `json:"after,omitempty"`
	// What differs, for a changed item: "uid", "version", "labels.KEY" and "annotations.KEY".
	Fields []string `json:"fields,omitempty"`
}

// NewChange returns the document of a change.
func NewChange(c manifest.Change) Change {
	doc := Change{Change: c.Type, Before: c.Before, After: c.After}
	if c.UID {
		doc.Fields = append(doc.Fields, "uid")
	}
	if c.Version {
		doc.Fields = append(doc.Fields, "version")
	}
	for _, key := range c.Labels {
		doc.Fields = append(doc.Fields, "labels."+key)
	}
	for _, key := range c.Annotations {
		doc.Fields = append(doc.Fields, "annotations."+key)
	}
	return doc
}

// Diff returns a page of the selected items in which two backups differ. If both have an index, only blocks with
// differences are read.
func Diff(ctx context.Context, before, after *Manifest, filters Filters, page Page) (*Changes, error) {
	if err := page.check(); err != nil {
		return nil, err
	}
	start, err := parsePosition(page.After)
	if err != nil {
		return nil, err
	}
	doc := &Changes{Changes: []Change{}}
	var items [2]iter.Seq2[*manifest.Item, error]
	for i, m := range []*Manifest{before, after} {
		selection, err := NewSelection(filters)
		if err != nil {
			return nil, err
		}
		w := walk{of: m, selection: selection, start: start, other: []*Manifest{after, before}[i]}
		items[i] = w.items(ctx)
		if page.Limit > 0 {
			items[i] = pausing(items[i], &doc.Next)
		}
	}
	for c, err := range manifest.Diff(items[0], items[1]) {
		switch {
		case errors.Is(err, errPaused):
			return doc, nil
		case err != nil:
			return nil, err
		case page.full(len(doc.Changes)):
			doc.Next = from(changed(c))
			return doc, nil
		}
		doc.Changes = append(doc.Changes, NewChange(c))
	}
	return doc, nil
}

// pausing yields some of items, and then errPaused. Before that it assigns to next the position of the last of them,
// which the others have not been compared with.
func pausing(items iter.Seq2[*manifest.Item, error], next *string) iter.Seq2[*manifest.Item, error] {
	return func(yield func(*manifest.Item, error) bool) {
		var last *manifest.Item
		yielded := 0
		for item, err := range items {
			if yielded++; yielded > maxScan && err == nil {
				*next = from(last)
				yield(nil, errPaused)
				return
			}
			if last = item; !yield(item, err) {
				return
			}
		}
	}
}

// changed returns the item of a change, as it was last.
func changed(c manifest.Change) *manifest.Item {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// from returns the position right before an item in any of its versions.
func from(item *manifest.Item) string {
	unversioned := *item
	unversioned.APIVersion = ""
	return after(&unversioned)
}
