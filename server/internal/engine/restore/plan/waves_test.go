package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// TestWavesOfRandomOrders checks that waves come by level, and each after what it needs, and that a description counts
// all items and what is missing.
func TestWavesOfRandomOrders(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for range 300 {
		snapshot := discovery.NewSnapshot(nil, nil)
		o := NewOrder(snapshot, random.IntN(2) == 0)
		var refs []manifest.Ref
		for level := range 1 + random.IntN(5) {
			gr := schema.GroupResource{Group: "a.io", Resource: fmt.Sprintf("r%d", level)}
			var entries Entries
			for n := range random.IntN(6) {
				entries = append(entries, archive.Entry{GroupResource: gr, Namespace: "n", Name: fmt.Sprint(n)})
				refs = append(refs, manifest.Ref{Group: gr.Group, Resource: gr.Resource, Namespace: "n", Name: fmt.Sprint(n)})
			}
			o.AddLevel(gr, level, entries)
		}
		missing := map[string]bool{}
		for _, from := range refs {
			item := &manifest.Item{APIGroup: from.Group, Resource: from.Resource, Namespace: "n", Name: from.Name}
			for range random.IntN(4) {
				to := refs[random.IntN(len(refs))]
				if random.IntN(5) == 0 {
					to.Name = "gone"
					missing[to.Resource] = true
				}
				item.Edges = append(item.Edges, manifest.Edge{Type: manifest.Reference, To: to, Strict: random.IntN(2) == 0})
			}
			o.AddEdges(item)
		}
		o.Complete()
		waves := o.Waves()
		for i, wave := range waves {
			for to := range o.Needs.Of(i) {
				require.Less(t, waves[to], wave)
			}
			for other := range waves {
				if o.Level[other] < o.Level[i] {
					require.Less(t, waves[other], wave)
				}
			}
		}
		described := o.Describe(waves, func(e archive.Entry) bool { return e.GroupResource.Resource == "r1" })
		items := 0
		for _, wave := range described.Waves {
			require.Positive(t, wave.Items())
			items += wave.Items()
		}
		require.Equal(t, len(refs), items)
		require.Len(t, described.Missing, len(missing))
		for _, m := range described.Missing {
			require.Equal(t, "gone", m.Name)
			require.Equal(t, m.Resource == "r1.a.io", m.LeftOut)
			require.NotEqual(t, outcome.Ref{}, m.Needer)
		}
		require.Len(t, o.Cycles, len(described.Cycles)+described.MoreCycles)
	}
}
