package contents

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/drawing"
)

// Graph returns how the selected items depend on each other: the first of them, at most so many, or all if that is 0. A
// note says so if there are more. Unless everything is selected, the manifest gets an index for that.
func (m *Manifest) Graph(ctx context.Context, s *Selection, most int) (*drawing.Graph, error) {
	if most < 0 {
		return nil, errNegative
	}
	if !s.filters.Everything() {
		if err := m.Index(ctx); err != nil {
			return nil, err
		}
	}
	n := newNeighbourhood(m, most)
	for item, err := range m.Items(ctx, s) {
		if err != nil {
			return nil, err
		}
		if n.full() {
			n.more = true
			break
		}
		item, err := n.know(item)
		if err != nil {
			return nil, err
		}
		n.show(item)
	}
	n.whole = s.filters.Everything() && !n.more
	if err := n.learnAll(ctx); err != nil {
		return nil, err
	}
	graph := drawing.New(drawing.Options{Title: filepath.Base(m.name), Graph: n.all.Graph(), Items: n.shown})
	if n.more {
		graph.Notes = append(graph.Notes, fmt.Sprintf("More than %d items are selected: the first are shown.", most))
	}
	return graph, nil
}

var errNegative = errors.New("the depth and the number of items: want numbers that are not negative")

// Around says which items around one are shown.
type Around struct {
	Needs     bool // what it depends on
	Referrers bool // what depends on it
	Depth     int  // how many dependencies away to go; 0 for any number
	Most      int  // the number of items, with the one itself; 0 for any
}

// Around returns the graph of the items around one, the nearest first. A note says so if there are more than may be
// shown. The manifest gets an index for that.
func (m *Manifest) Around(ctx context.Context, item *manifest.Item, a Around) (*drawing.Graph, error) {
	if a.Depth < 0 || a.Most < 0 {
		return nil, errNegative
	}
	if err := m.Index(ctx); err != nil {
		return nil, err
	}
	n := newNeighbourhood(m, a.Most)
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
	if a.Needs {
		if err := n.learnAll(ctx); err != nil {
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

// neighbourhood is some items and what is around them, as far as it is known.
type neighbourhood struct {
	of       *Manifest
	most     int                       // the number of shown items; 0 for any
	all      *manifest.Manifest        // shown items, and others that these depend on
	known    map[string]*manifest.Item // the same, by their positions
	shown    []*manifest.Item          // the nearest first
	isShown  map[*manifest.Item]bool
	more     bool                  // whether there are more than may be shown
	whole    bool                  // whether all is all items of the backup
	resolved map[manifest.Ref]bool // references whose items are known, or not in the backup
}

func newNeighbourhood(of *Manifest, most int) *neighbourhood {
	return &neighbourhood{of: of, most: most, all: manifest.New(), known: map[string]*manifest.Item{},
		isShown: map[*manifest.Item]bool{}, resolved: map[manifest.Ref]bool{}}
}

// full reports whether there are as many items as may be shown.
func (n *neighbourhood) full() bool { return n.most > 0 && len(n.shown) == n.most }

// know returns the item of all that is the same as a given one. If there is none, it adds one, without the labels and
// annotations, which take most of the memory.
func (n *neighbourhood) know(item *manifest.Item) (*manifest.Item, error) {
	at := after(item)
	if known := n.known[at]; known != nil {
		return known, nil
	}
	added := *item
	added.Labels, added.Annotations = nil, nil
	if _, err := n.all.Add(&added); err != nil {
		return nil, n.of.failed(err)
	}
	n.known[at] = &added
	return &added, nil
}

// show shows an item, if there may be more.
func (n *neighbourhood) show(item *manifest.Item) {
	switch {
	case n.isShown[item]:
	case n.full():
		n.more = true
	default:
		n.shown, n.isShown[item] = append(n.shown, item), true
	}
}

// What is learned of the dependencies of dependencies is limited, because a manifest may hold chains of any length.
const (
	mostLevels = 100
	mostKnown  = 10_000 // items that are not shown
)

// learnAll makes known what the shown items depend on, and so on, so that it is right which dependencies lead out of
// the picture, which out of the backup, and how the items follow each other. The last may be wrong beyond the limits.
func (n *neighbourhood) learnAll(ctx context.Context) error {
	of, known := n.shown, 0
	for level := 0; len(of) > 0 && level < mostLevels && known < mostKnown; level++ {
		found, err := n.learnNeeds(ctx, of)
		if err != nil {
			return err
		}
		of, known = found, known+len(found)
	}
	return nil
}

// learnNeeds makes known what items depend on, and returns those that were not known.
func (n *neighbourhood) learnNeeds(ctx context.Context, of []*manifest.Item) (added []*manifest.Item, err error) {
	var refs []manifest.Ref
	learn := func(ref manifest.Ref) {
		if !n.resolved[ref] && !n.whole {
			n.resolved[ref] = true
			if n.all.Find(ref) == nil {
				refs = append(refs, ref)
			}
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
	if len(refs) == 0 {
		return nil, nil
	}
	found, err := n.of.resolve(ctx, refs)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if found[ref] == nil || n.known[after(found[ref])] != nil {
			continue
		}
		item, err := n.know(found[ref])
		if err != nil {
			return nil, err
		}
		added = append(added, item)
	}
	return added, nil
}

// showNeeds shows what items depend on.
func (n *neighbourhood) showNeeds(ctx context.Context, of []*manifest.Item) error {
	if _, err := n.learnNeeds(ctx, of); err != nil {
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
