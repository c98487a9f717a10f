package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// object is what an item is in whatever version.
type object struct{ group, resource, namespace, name string }

func objectOf(i *Item) object { return object{i.APIGroup, i.Resource, i.Namespace, i.Name} }

// model is the naive model of a manifest: the first version of each object.
type model map[object]*Item

func random(r *rand.Rand) (*Manifest, model) {
	m, naive := New(), model{}
	for range r.IntN(60) {
		item := &Item{
			APIGroup: pick(r, "", "apps"), APIVersion: pick(r, "v1", "v2"), Resource: pick(r, "as", "bs"), ItemKind: "A",
			Namespace: pick(r, "", "x", "y"), Name: pick(r, "a", "b", "c-d"), UID: pick(r, "", "u1", "u2"),
			Labels:      map[string]string{pick(r, "k", "l"): pick(r, "", "1")},
			Annotations: map[string]string{pick(r, "k", "l"): pick(r, "", "1")},
		}
		if added, err := m.Add(item); !added {
			if err != ItemAlreadyExists { //nolint:errorlint // as callers compare it
				panic(err)
			}
			continue
		}
		if first := naive[objectOf(item)]; first == nil || item.APIVersion < first.APIVersion {
			naive[objectOf(item)] = item
		}
	}
	return m, naive
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func (m model) objects() []object {
	return slices.SortedFunc(maps.Keys(m), func(a, b object) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// change says in words how an object has changed, or nothing.
func (m model) change(o object, after model) string {
	a, b := m[o], after[o]
	switch {
	case a == nil:
		return fmt.Sprint(Added, o)
	case b == nil:
		return fmt.Sprint(Gone, o)
	}
	keys := func(a, b map[string]string) (changed []string) {
		for _, key := range []string{"k", "l"} {
			before, had := a[key]
			now, has := b[key]
			if had != has || before != now {
				changed = append(changed, key)
			}
		}
		return changed
	}
	labels, annotations := keys(a.Labels, b.Labels), keys(a.Annotations, b.Annotations)
	if a.UID == b.UID && a.APIVersion == b.APIVersion && labels == nil && annotations == nil {
		return ""
	}
	return fmt.Sprint(Changed, o, a.APIVersion != b.APIVersion, a.UID != b.UID, labels, annotations)
}

// addresses tell the very items, not only what is in them.
func addresses(items []*Item) (all []string) {
	for _, item := range items {
		all = append(all, fmt.Sprintf("%p", item))
	}
	return all
}

func TestAcceptManifest_SetOperations(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		manifests, naive := make([]*Manifest, 3), make([]model, 3)
		for i := range manifests {
			manifests[i], naive[i] = random(r)
		}
		every := model{}
		for _, m := range naive {
			maps.Copy(every, m)
		}

		var want, got []string
		for _, o := range every.objects() {
			if naive[0][o] == nil && naive[1][o] == nil {
				continue
			}
			if change := naive[0].change(o, naive[1]); change != "" {
				want = append(want, change)
			}
		}
		for c, err := range Diff(Sorted(manifests[0]), Sorted(manifests[1])) {
			require.NoError(t, err)
			switch c.Type {
			case Added:
				got = append(got, fmt.Sprint(c.Type, objectOf(c.After)))
			case Gone:
				got = append(got, fmt.Sprint(c.Type, objectOf(c.Before)))
			case Changed:
				got = append(got, fmt.Sprint(c.Type, objectOf(c.Before), c.Version, c.UID, c.Labels, c.Annotations))
			}
		}
		require.Equal(t, want, got)

		want, got = nil, nil
		for _, o := range every.objects() {
			items := []*Item{naive[0][o], naive[1][o], naive[2][o]}
			if len(slices.DeleteFunc(slices.Clone(items), func(i *Item) bool { return i == nil })) > 1 {
				want = append(want, fmt.Sprint(o, addresses(items)))
			}
		}
		for shared, err := range Overlap(Sorted(manifests[0]), Sorted(manifests[1]), Sorted(manifests[2])) {
			require.NoError(t, err)
			at := slices.IndexFunc(shared.Items, func(i *Item) bool { return i != nil })
			got = append(got, fmt.Sprint(objectOf(shared.Items[at]), addresses(shared.Items)))
		}
		require.Equal(t, want, got)

		both := map[string]bool{}
		for item := range manifests[0].Items() {
			if manifests[1].Kinds[item.kindKey()][item.Namespace][item.Name] != nil {
				both[item.String()] = true
			}
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(both)), manifests[0].Overlap(manifests[1]).UnsortedList())
		sortedItems := slices.Collect(manifests[0].Items())
		require.True(t, slices.IsSortedFunc(sortedItems, compareItems))
		require.Len(t, manifests[0].Set(), len(sortedItems))
	}
}

func TestSetOperationsReportWhatIsWrongWithTheirInput(t *testing.T) {
	t.Parallel()
	items := sample(2)
	unsorted := func(yield func(*Item, error) bool) { _ = yield(items[1], nil) && yield(items[0], nil) }
	broken := func(yield func(*Item, error) bool) { _ = yield(items[0], nil) && yield(nil, errors.New("it broke")) }
	for want, sequence := range map[string]iter.Seq2[*Item, error]{"want items sorted": unsorted, "it broke": broken} {
		var last error
		for _, err := range Diff(sequence, Sorted(New())) {
			last = err
		}
		require.ErrorContains(t, last, want)
		for _, err := range Overlap(Sorted(New()), sequence) {
			last = err
		}
		require.ErrorContains(t, last, want)
	}
	for range Diff(Sorted(New()), unsorted) {
		break // whoever stops early gets nothing more
	}
}
