package restore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

func TestNilResourceListIsEmpty(t *testing.T) {
	t.Parallel()
	var none *ResourceList
	require.Zero(t, none.Len())
	require.Empty(t, none.Kinds())
	require.Empty(t, slices.Collect(none.Of("v1/ConfigMap")))
	content, err := jsonv2.Marshal(none, jsonv1.DefaultOptionsV1())
	require.NoError(t, err)
	require.Equal(t, "null", string(content))
}

// TestResultsOfRandomItems checks that the tracker tells the same of items whose claims it has forgotten as of others,
// and that the resource list has each item once.
func TestResultsOfRandomItems(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		resources := []schema.GroupResource{{Resource: "a"}, {Group: "g", Resource: "a"}, {Resource: "cluster"}}
		namespaces := []string{"n1", "n1-x", "n2", "n3"}
		target := func(namespace string) string { return map[string]string{"n3": "n2", "n1": "m"}[namespace] }
		mapped := func(namespace string) string { return cmp.Or(target(namespace), namespace) }
		order := plan.NewOrder(new(discovery.Snapshot), false)
		var items, unplanned []archive.Entry
		for level, gr := range resources {
			var planned plan.Entries
			for _, namespace := range namespaces {
				if gr.Resource == "cluster" {
					namespace = ""
				}
				for i := range random.IntN(5) {
					e := archive.Entry{GroupResource: gr, Namespace: namespace, Name: fmt.Sprint("i", i)}
					switch {
					case slices.Contains(items, e):
					case random.IntN(4) == 0:
						unplanned = append(unplanned, e)
						items = append(items, e)
					default:
						planned = append(planned, e)
						items = append(items, e)
					}
				}
			}
			slices.SortFunc(planned, func(a, b archive.Entry) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
			order.AddLevel(gr, level, planned)
		}
		order.Complete()
		tracker := newTracker()
		tracker.planned(order, namespaces, mapped)
		want, first := map[string][]string{}, map[itemKey]archive.Entry{}
		random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		for _, e := range items {
			kind := e.GroupResource.Group + "/v1/" + e.GroupResource.Resource
			if random.IntN(10) == 0 {
				kind += "-other" // the object is of another version than its resource
			}
			key := itemKey{kind, mapped(e.Namespace), e.Name}
			c, claimed := tracker.claim(&worker{}, key, e)
			if other, taken := first[key]; taken {
				require.False(t, claimed)
				require.Equal(t, other.Namespace, c.source)
				continue
			}
			require.True(t, claimed)
			first[key] = e
			c.action, c.exists = action(random.IntN(5)), random.IntN(2) == 0 //nolint:gosec // few
			tracker.finish(c)
			tracker.settle(key, e, c)
			again, claimed := tracker.claim(&worker{}, key, e)
			require.False(t, claimed)
			require.True(t, tracker.isFinished(again))
			require.Equal(t, []any{c.action, c.exists, c.source}, []any{again.action, again.exists, again.source})
			require.Equal(t, c.action == actionCreated, tracker.created(key, e))
			if c.action == actionNone {
				continue
			}
			entry := e.Name
			if random.IntN(5) == 0 {
				entry = "generated-" + fmt.Sprint(len(first))
				tracker.named(key, entry)
			}
			entry += "(" + c.action.String() + ")"
			if key.namespace != "" {
				entry = key.namespace + "/" + entry
			}
			want[kind] = append(want[kind], entry)
		}
		for _, e := range unplanned {
			_, there := tracker.find(e)
			require.False(t, there)
		}
		list := tracker.take()
		length := 0
		for _, kind := range list.Kinds() {
			length += len(slices.Collect(list.Of(kind)))
		}
		require.Equal(t, list.Len(), length)
		content, err := jsonv2.Marshal(list, jsonv1.DefaultOptionsV1())
		require.NoError(t, err)
		var got map[string][]string
		require.NoError(t, json.Unmarshal(content, &got))
		for _, lists := range []map[string][]string{want, got} {
			for _, entries := range lists {
				slices.Sort(entries)
			}
		}
		require.Equal(t, want, got, "seed %d", seed)
	}
}
