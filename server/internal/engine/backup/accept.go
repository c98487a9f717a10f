package backup

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// notAccepted is the reason why objects are excluded that the filters select and the accepted manifest does not
// contain.
const notAccepted = "it is new since the accepted dry run"

// Accepted holds the items of a manifest that a user has accepted. A backup with it includes only these items, and the
// items on which an action insists. Only hashes of the items are kept. An Accepted is for one backup.
type Accepted struct {
	open func(context.Context) (io.ReadCloser, error)
	seen seen // for its keys
	seed maphash.Seed

	mu    sync.Mutex
	items map[key]accepted
	fresh map[key]struct{}
	notes [differences]note
}

// accepted is the state of one item.
type accepted struct {
	print uint64 // of its UID and labels
	taken bool
}

// Differences between the manifest and the backup.
const (
	isNew = iota
	isGone
	isChanged
	differences
)

// note counts items, and names the first ones.
type note struct {
	names []string
	count int
}

// maxNamed is the maximum number of items that a note names.
const maxNamed = 10

// NewAccepted reads a manifest. It calls open once now and once in the backup.
func NewAccepted(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) (*Accepted, error) {
	a := &Accepted{open: open, seed: maphash.MakeSeed(), items: map[key]accepted{}, fresh: map[key]struct{}{}}
	err := a.each(ctx, func(one *manifest.Item) error {
		a.items[a.keyOf(one.APIGroup, one.Resource, one.APIVersion, one.Namespace, one.Name)] = accepted{
			print: a.print(one.UID, one.Labels),
		}
		return nil
	})
	return a, err
}

// each calls use with the items of the manifest.
func (a *Accepted) each(ctx context.Context, use func(*manifest.Item) error) error {
	file, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	r, err := manifest.NewReader(file)
	if err != nil {
		return err
	}
	for one, err := range r.Items() {
		if err == nil {
			err = use(one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Accepted) keyOf(group, resource, version, namespace, name string) key {
	return a.seen.key(group, resource+"/"+version, namespace, name)
}

// print returns a hash that shows whether an item has changed.
func (a *Accepted) print(uid string, labels map[string]string) uint64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	write := func(text string) {
		maphash.WriteComparable(&h, text)
	}
	write(uid)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		write(name)
		write(labels[name])
	}
	return h.Sum64()
}

// has reports whether the manifest has an object, and records an object that it does not have.
func (a *Accepted) has(res discovery.Resource, meta item.Meta) bool {
	k := a.keyOf(res.GroupVersion.Group, res.Name, res.GroupVersion.Version, meta.Namespace, meta.Name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.items[k]; ok {
		return true
	}
	if _, noted := a.fresh[k]; !noted {
		a.fresh[k] = struct{}{}
		a.note(isNew, res.GroupResource(), meta.Namespace, meta.Name)
	}
	return false
}

// took records an object that is in the backup. Actions may have changed its labels, and not all of them were called
// for the manifest. So the object is unchanged if before or after equals the entry of the manifest.
func (a *Accepted) took(res discovery.Resource, before, after item.Meta) {
	k := a.keyOf(res.GroupVersion.Group, res.Name, res.GroupVersion.Version, before.Namespace, before.Name)
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.items[k]
	if !ok || known.taken {
		return
	}
	if known.print != a.print(before.UID, before.Labels) && known.print != a.print(after.UID, after.Labels) {
		a.note(isChanged, res.GroupResource(), before.Namespace, before.Name)
	}
	known.taken = true
	a.items[k] = known
}

func (a *Accepted) isTaken(one *manifest.Item) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.items[a.keyOf(one.APIGroup, one.Resource, one.APIVersion, one.Namespace, one.Name)].taken
}

func (a *Accepted) gone(one *manifest.Item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(isGone, schema.GroupResource{Group: one.APIGroup, Resource: one.Resource}, one.Namespace, one.Name)
}

func (a *Accepted) note(what int, gr schema.GroupResource, namespace, name string) {
	n := &a.notes[what]
	if n.count++; len(n.names) < maxNamed {
		n.names = append(n.names, gr.String()+" "+listName(namespace, name))
	}
}

// warnings returns the changes since the manifest was made.
func (a *Accepted) warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for what, text := range [differences]string{
		isNew:     "new since the accepted dry run, and not in the backup",
		isGone:    "gone since the accepted dry run, and not in the backup",
		isChanged: "changed since the accepted dry run (their UIDs or labels), and in the backup as they are now",
	} {
		n := a.notes[what]
		if n.count == 0 {
			continue
		}
		slices.Sort(n.names)
		names := strings.Join(n.names, ", ")
		if more := n.count - len(n.names); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, fmt.Sprintf("items %s: %d: %s", text, n.count, names))
	}
	return all
}

// takeRest backs up the objects of the accepted manifest that the filters no longer select, and warns of changes.
func (e *engine) takeRest(ctx context.Context) error {
	a := e.req.Accepted
	if a == nil {
		return nil
	}
	err := a.each(ctx, func(one *manifest.Item) error {
		if a.isTaken(one) {
			return nil
		}
		taken, err := e.takeAgain(ctx, one)
		if err == nil && !taken {
			a.gone(one)
		}
		return cmp.Or(err, context.Cause(ctx))
	})
	if err != nil {
		return fmt.Errorf("take the rest of the accepted dry run: %w", err)
	}
	for _, warning := range a.warnings() {
		e.warn(warning)
	}
	return nil
}

// takeAgain backs up one object of the accepted manifest. taken is false if it no longer exists.
func (e *engine) takeAgain(ctx context.Context, one *manifest.Item) (taken bool, err error) {
	gr := schema.GroupResource{Group: one.APIGroup, Resource: one.Resource}
	resource, served := e.sel.snapshot.ByGroupResource(gr)
	switch {
	case !served:
		return false, nil
	case resource.GroupVersion.Version == one.APIVersion:
	case slices.Contains(resource.Others, one.APIVersion):
		resource = resource.In(one.APIVersion)
	default:
		return false, nil
	}
	raw, err := e.get(ctx, resource, one.Namespace, one.Name)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		e.record.failed(gr, one.Namespace, one.Name, "object of the accepted dry run cannot be read, it is not backed up",
			err)
		return true, nil // it may exist
	}
	return e.object(ctx, object{resource: resource, raw: raw, must: true, included: one.Included})
}
