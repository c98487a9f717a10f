package contents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Item is one item of a backup. Its edges are what it depends on.
type Item struct {
	*manifest.Item
	// Referrers are what depends on it, if they were asked for.
	Referrers []Referrer `json:"referrers,omitempty"`
	Next      string     `json:"next,omitempty"` // for the page of Referrers after this one
}

// Referrer is an item that depends on another one.
type Referrer struct {
	Item manifest.Ref  `json:"item"`
	Edge manifest.Edge `json:"edge"`
}

// Item returns an item, and a page of its referrers if referrers is not nil, for which the manifest gets an index.
func (m *Manifest) Item(ctx context.Context, name itemname.Name, referrers *Page) (*Item, error) {
	found, err := m.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	doc := &Item{Item: found}
	if referrers != nil {
		doc.Referrers, doc.Next, err = m.referrers(ctx, found, *referrers)
	}
	return doc, err
}

// referrers returns a page of what depends on an item, and where the next page begins.
func (m *Manifest) referrers(ctx context.Context, item *manifest.Item, page Page) (all []Referrer, next string,
	err error) {
	if err := m.Index(ctx); err != nil {
		return nil, "", err
	}
	w := walk{of: m}
	if err := w.startAt(page); err != nil {
		return nil, "", err
	}
	last := ""
	for from, edges := range m.referring(ctx, &w, &err, item) {
		if page.full(len(all)) {
			return all, last, nil
		}
		for _, edge := range edges {
			all = append(all, Referrer{Item: from.Ref(), Edge: edge})
		}
		last = after(from)
	}
	if errors.Is(err, errPaused) {
		return all, w.at, nil
	}
	return all, "", err
}

// referring yields the items of a walk that depend on one of targets, and the edges by which they do. An error is
// assigned to failed, and nothing comes after it.
func (m *Manifest) referring(ctx context.Context, w *walk, failed *error,
	targets ...*manifest.Item) iter.Seq2[*manifest.Item, []manifest.Edge] {
	return func(yield func(*manifest.Item, []manifest.Edge) bool) {
		wanted := manifest.New() // which decides what means them
		for _, target := range targets {
			copied := *target
			if _, err := wanted.Add(&copied); err != nil && !errors.Is(err, manifest.ItemAlreadyExists) {
				*failed = m.failed(err)
				return
			}
		}
		w.tokens = func(x *index) (tokens []uint32) {
			for _, target := range targets {
				tokens = append(tokens, x.tokensTo(target.Ref())...)
			}
			return tokens
		}
		for item, err := range w.items(ctx) {
			if err != nil {
				*failed = err
				return
			}
			var edges []manifest.Edge
			for link := range linksOf(item) {
				if wanted.Find(link.To) != nil {
					edges = append(edges, link)
				}
			}
			if len(edges) > 0 && !yield(item, edges) {
				return
			}
		}
	}
}

// NoItem is the error about an item that is not in a backup.
type NoItem struct{ Text string }

func (n NoItem) Error() string { return n.Text }

// maxNamed is how many items an error enumerates.
const maxNamed = 5

// Find returns the item that a user has named. It reads no more of the manifest than it needs to: a block if resource
// and namespace are exact.
func (m *Manifest) Find(ctx context.Context, name itemname.Name) (*manifest.Item, error) {
	resource, known := itemname.BuiltIns().Resolve(name.Resource)
	if !known { // the full name of a custom resource, or another spelling
		plural, group, _ := strings.Cut(name.Resource, ".")
		resource.Resource, resource.Group = plural, group
	}
	within := manifest.Ref{Group: resource.Group, Resource: resource.Resource}
	exact := within
	exact.Namespace, exact.Name = name.Namespace, name.Name
	refs := []manifest.Ref{exact}
	if name.AnyNamespace {
		refs = append(refs, within)
	}
	if !known {
		refs = append(refs, manifest.Ref{})
	}
	for _, ref := range refs {
		found, err := named(m.of(ctx, ref), name)
		if err != nil {
			return nil, err
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			var names []string
			for _, item := range found {
				names = append(names, NameOf(item.Ref()))
			}
			return nil, m.failed(fmt.Errorf("several items have this name, say which: %s",
				layout.Abbreviate(names, maxNamed, ", ")))
		}
	}
	return nil, NoItem{fmt.Sprintf("%s has no item %s", layout.OneLine(m.name), layout.OneLine(name.String()))}
}

// named returns the items that have a name; one of several versions of an item.
func named(items iter.Seq2[*manifest.Item, error], name itemname.Name) ([]*manifest.Item, error) {
	var found []*manifest.Item
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		matches := item.Name == name.Name && name.In(item.Namespace) &&
			name.Is(groupResource(item), item.APIVersion, item.ItemKind, item.Namespace != "")
		if last := len(found) - 1; matches && (last < 0 || NameOf(found[last].Ref()) != NameOf(item.Ref())) {
			found = append(found, item)
		}
	}
	return found, nil
}
