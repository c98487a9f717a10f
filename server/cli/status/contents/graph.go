package contents

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/drawing"
)

// Graph returns how the selected items depend on each other. All items are in memory for that.
func (m *Manifest) Graph(ctx context.Context, s *Selection) (*drawing.Graph, error) {
	all := manifest.New()
	var shown []*manifest.Item
	w := walk{of: m}
	for item, err := range w.items(ctx) {
		if err != nil {
			return nil, err
		}
		matches, err := s.Match(item)
		if err != nil {
			return nil, err
		}
		item.Labels, item.Annotations = nil, nil // which take most of the memory
		if _, err := all.Add(item); err != nil {
			return nil, m.failed(err)
		}
		if matches {
			shown = append(shown, item)
		}
	}
	return drawing.New(drawing.Options{Title: filepath.Base(m.name), Graph: all.Graph(), Items: shown}), nil
}

// Around says which items around one are shown.
type Around struct {
	Needs     bool // what it depends on
	Referrers bool // what depends on it
	Depth     int  // how many dependencies away to go; 0 for any number
	Most      int  // the number of items, with the one itself; 0 for any
}

// Around returns the graph of the items around one, the nearest first. A note says so if there are more than may be
// shown. The waves count what is known of the graph then. The manifest gets an index for that.
func (m *Manifest) Around(ctx context.Context, item *manifest.Item, a Around) (*drawing.Graph, error) {
	if a.Depth < 0 || a.Most < 0 {
		return nil, errors.New("the depth and the number of items: want numbers that are not negative")
	}
	if err := m.Index(ctx); err != nil {
		return nil, err
	}
	n := &neighbourhood{of: m, most: a.Most, all: manifest.New(), known: map[string]*manifest.Item{},
		isShown: map[*manifest.Item]bool{}, resolved: map[manifest.Ref]bool{}}
	asked, err := n.know(item)
	if err != nil {
		return nil, err
	}
	n.show(asked)
	for begin, level := 0, 0; begin < len(n.shown) && (a.Depth == 0 || level < a.Depth) && !n.more; level++ {
		nearest := n.shown[begin:]
		begin = len(n.shown)
		if a.Needs {
			err = n.showNeeds(ctx, nearest)
		}
		if a.Referrers && err == nil {
			err = n.showReferrers(ctx, nearest)
		}
		if err != nil {
			return nil, err
		}
	}
	if a.Needs { // those of the last too, to say which lead out of the picture, and which out of the backup
		if err := n.learnNeeds(ctx, n.shown); err != nil {
			return nil, err
		}
	}
	graph := drawing.New(drawing.Options{
		Title: fmt.Sprintf("%s in %s", NameOf(item.Ref()), filepath.Base(m.name)),
		Graph: n.all.Graph(), Items: n.shown, Asked: asked, Closed: !a.Needs,
	})
	if n.more {
		graph.Notes = append(graph.Notes,
			fmt.Sprintf("More than %d items are around this one: the nearest are shown.", a.Most))
	}
	return graph, nil
}

// neighbourhood is what is around an item, as far as it is known.
type neighbourhood struct {
	of       *Manifest
	most     int                       // the number of shown items; 0 for any
	all      *manifest.Manifest        // shown items, and others that these depend on
	known    map[string]*manifest.Item // the same, by their positions
	shown    []*manifest.Item          // the nearest first
	isShown  map[*manifest.Item]bool
	more     bool                  // whether there are more than may be shown
	resolved map[manifest.Ref]bool // references whose items are known, or not in the backup
}

// know returns the item of all that is the same as a given one, which it adds if there is none.
func (n *neighbourhood) know(item *manifest.Item) (*manifest.Item, error) {
	at := after(item)
	if known := n.known[at]; known != nil {
		return known, nil
	}
	if _, err := n.all.Add(item); err != nil {
		return nil, n.of.failed(err)
	}
	n.known[at] = item
	return item, nil
}

// show shows an item, if there may be more.
func (n *neighbourhood) show(item *manifest.Item) {
	switch {
	case n.isShown[item]:
	case n.most > 0 && len(n.shown) == n.most:
		n.more = true
	default:
		n.shown, n.isShown[item] = append(n.shown, item), true
	}
}

// learnNeeds makes known what items depend on.
func (n *neighbourhood) learnNeeds(ctx context.Context, of []*manifest.Item) error {
	var refs []manifest.Ref
	learn := func(ref manifest.Ref) {
		if !n.resolved[ref] {
			n.resolved[ref] = true
			refs = append(refs, ref)
		}
	}
	for _, item := range of {
		for link := range linksOf(item) {
			learn(link.To)
		}
		if item.Namespace != "" { // which comes before the item, as its definition does
			learn(manifest.Ref{Resource: "namespaces", Name: item.Namespace})
		}
		learn(manifest.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions",
			Name: ResourceOf(item.Ref())})
	}
	found, err := n.of.resolve(ctx, refs)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if item := found[ref]; item != nil {
			if _, err := n.know(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// showNeeds shows what items depend on.
func (n *neighbourhood) showNeeds(ctx context.Context, of []*manifest.Item) error {
	if err := n.learnNeeds(ctx, of); err != nil {
		return err
	}
	for _, item := range of {
		for link := range linksOf(item) {
			if needed := n.all.Find(link.To); needed != nil {
				n.show(needed)
			}
		}
	}
	return nil
}

// showReferrers shows what depends on items.
func (n *neighbourhood) showReferrers(ctx context.Context, of []*manifest.Item) (err error) {
	for item := range n.of.referring(ctx, &walk{of: n.of}, &err, of...) {
		item, failed := n.know(item)
		if failed != nil {
			return failed
		}
		if n.show(item); n.more {
			break
		}
	}
	return err
}
