package manifest

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// Items streams an archive in and calls add for each of its objects, with its JSON, which add must not keep. The items
// have their data from origins. An object with too many references has none.
func Items(
	ctx context.Context, r io.Reader, table *reference.Table, origins *Origins, add func(item *manifestwriter.Item,
		object []byte),
) error {
	return archive.Walk(ctx, r, archive.DefaultLimits(), func(o archive.Object) error {
		of, meta, err := identify(o)
		if err != nil {
			return fmt.Errorf("%w: %w", archive.ErrCorrupt, err)
		}
		made, _ := Item(of, o.JSON, meta, table) // the error was a warning of the backup when the object was archived
		origins.addTo(made)
		add(made, o.JSON)
		return nil
	})
}

// Origins is the data of items that a manifest has and an archive lacks: how they came into the backup, and the items
// that actions have requested for them.
type Origins struct {
	seeds  [2]maphash.Seed
	plain  map[string]*origin // of items without requests of actions, by how they came in
	items  map[[2]uint64]*origin
	posted map[framework.ResourceIdentifier]manifest.Inclusion
}

type origin struct {
	included manifest.Inclusion
	actions  []manifest.Edge
}

// NewOrigins returns Origins without items.
func NewOrigins() *Origins {
	return &Origins{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, plain: map[string]*origin{},
		items:  map[[2]uint64]*origin{},
		posted: map[framework.ResourceIdentifier]manifest.Inclusion{},
	}
}

// Read adds the items of a manifest. It keeps little more than a hash of most of them.
func (o *Origins) Read(r io.Reader) error {
	reader, err := manifest.NewReader(r)
	if err != nil {
		return err
	}
	for item, err := range reader.Items() {
		if err != nil {
			return err
		}
		known := &origin{included: item.Included}
		for _, edge := range item.Edges {
			if edge.Type == manifest.Action {
				known.actions = append(known.actions, edge)
			}
		}
		if len(known.actions) == 0 && known.included == (manifest.Inclusion{By: known.included.By}) {
			if o.plain[item.Included.By] == nil {
				o.plain[item.Included.By] = known
			}
			known = o.plain[item.Included.By]
		}
		o.items[o.key(item.APIGroup, item.APIVersion, item.Resource, item.Namespace, item.Name)] = known
	}
	return nil
}

// Post adds an item that an operation has named. It has an effect only if no manifest has the item.
func (o *Origins) Post(item framework.ResourceIdentifier, included manifest.Inclusion) {
	o.posted[item] = included
}

func (o *Origins) key(parts ...string) (k [2]uint64) {
	for i, seed := range o.seeds {
		k[i] = maphash.Comparable(seed, [5]string(parts))
	}
	return k
}

// addTo adds the data of an item to it.
func (o *Origins) addTo(item *manifestwriter.Item) {
	id := framework.ResourceIdentifier{Group: item.Group, Resource: item.Resource, Namespace: item.Namespace,
		Name: item.Name}
	known := o.items[o.key(item.Group, item.Version, item.Resource, item.Namespace, item.Name)]
	if known == nil {
		item.Included = o.posted[id]
		return
	}
	item.Included = known.included
	Request(item, known.actions)
}
