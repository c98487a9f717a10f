package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// numbered returns an order of n objects of one resource.
func numbered(n int) *Order {
	o := NewOrder(new(discovery.Snapshot), false)
	gr := schema.GroupResource{Group: "g", Resource: "rs"}
	entries := make(Entries, n)
	for i := range entries {
		entries[i] = archive.Entry{GroupResource: gr, Namespace: "n", Name: name(i)}
	}
	o.AddLevel(gr, 0, entries)
	return o
}

func name(i int) string { return fmt.Sprintf("i%08d", i) }

// needs adds what an object needs.
func (o *Order) needs(i int, strict bool, of manifest.EdgeType, to ...int) {
	item := &manifest.Item{APIGroup: "g", Resource: "rs", Namespace: "n", Name: name(i)}
	for _, other := range to {
		item.Edges = append(item.Edges, manifest.Edge{Type: of, Strict: strict,
			To: manifest.Ref{Group: "g", Resource: "rs", Namespace: "n", Name: name(other)}})
	}
	o.AddEdges(item)
}

// requireWaves requires that the needs of an order have no cycle, and returns the waves.
func requireWaves(t *testing.T, o *Order) []int32 {
	t.Helper()
	waves, cycles := o.Needs.Waves()
	require.Empty(t, cycles, "what is left has no cycle")
	for i := range o.Len() {
		for to := range o.Needs.Of(i) {
			require.Less(t, waves[to], waves[i])
		}
	}
	return waves
}

// TestAcceptGraph_Cycles plans graphs that are hard to order.
func TestAcceptGraph_Cycles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		n      int
		add    func(o *Order)
		waves  int // at least
		cycles int
		broken int // needs
	}{
		"a chain of 10,000": {n: 10_000, add: func(o *Order) {
			for i := range 9_999 {
				o.needs(i, true, manifest.Reference, i+1)
			}
		}, waves: 10_000},
		"a chain that ends where it begins": {n: 10_000, add: func(o *Order) {
			for i := range 10_000 {
				o.needs(i, i != 5_000, manifest.Reference, (i+1)%10_000)
			}
		}, waves: 10_000, cycles: 1, broken: 1},
		"100,000 that one owns": {n: 100_001, add: func(o *Order) {
			for i := range 100_000 {
				o.needs(i+1, true, manifest.Controller, 0)
			}
		}, waves: 2},
		"100,000 that one owns and names": {n: 100_001, add: func(o *Order) {
			var all []int
			for i := range 100_000 {
				o.needs(i+1, true, manifest.Controller, 0)
				all = append(all, i+1)
			}
			o.needs(0, false, manifest.Reference, all...)
		}, waves: 2, cycles: 1, broken: 100_000},
		"each needs each": {n: 300, add: func(o *Order) {
			for i := range 300 {
				for j := range 300 {
					o.needs(i, false, manifest.Reference, j)
				}
			}
		}, waves: 300, cycles: 1, broken: 300 * 299 / 2},
		"to what is not in the backup": {n: 3, add: func(o *Order) {
			o.needs(0, true, manifest.Reference, 7, 8, 9)
			o.needs(7, true, manifest.Reference, 0)
		}, waves: 1},
		"itself": {n: 3, add: func(o *Order) { o.needs(1, true, manifest.Reference, 1) }, waves: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := numbered(test.n)
			test.add(o)
			o.Complete()
			require.EqualValues(t, test.waves, slices.Max(requireWaves(t, o))+1)
			require.Len(t, o.Cycles, test.cycles)
			broken := 0
			for _, cycle := range o.Cycles {
				broken += len(cycle.Broken)
			}
			require.Equal(t, test.broken, broken)
		})
	}
}

// TestStrictNeedsAreKept orders some thousand random graphs: of the strict needs, only those are disregarded that lie
// on a cycle of strict needs.
func TestStrictNeedsAreKept(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // repeatable
		n := 2 + random.IntN(12)
		o := numbered(n)
		strict := make([][]bool, n) // whether one needs another strictly, directly or not
		for i := range strict {
			strict[i] = make([]bool, n)
		}
		var direct [][2]int
		for range random.IntN(3 * n) {
			i, j, is := random.IntN(n), random.IntN(n), random.IntN(2) == 0
			o.needs(i, is, manifest.Reference, j)
			if is && i != j {
				strict[i][j] = true
				direct = append(direct, [2]int{i, j})
			}
		}
		for k := range n {
			for i := range n {
				for j := range n {
					strict[i][j] = strict[i][j] || strict[i][k] && strict[k][j]
				}
			}
		}
		o.Complete()
		waves := requireWaves(t, o)
		for _, need := range direct {
			require.True(t, waves[need[1]] < waves[need[0]] || strict[need[1]][need[0]], "seed %d: %v", seed, need)
		}
	}
}
