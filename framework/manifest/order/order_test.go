package order_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest/order"
)

// edge is a need of the item at its index.
type edge struct {
	to     int
	strict bool
}

func build(items [][]edge) *order.Needs {
	needs := new(order.Needs)
	for _, edges := range items {
		needs.Item()
		for _, e := range edges {
			needs.Add(e.to, e.strict)
		}
	}
	return needs
}

func TestWaves(t *testing.T) {
	t.Parallel()
	const soft, strict = false, true
	for name, test := range map[string]struct {
		items  [][]edge
		waves  []int32
		cycles []order.Cycle
	}{
		"nothing":            {nil, []int32{}, nil},
		"no needs":           {[][]edge{nil, nil}, []int32{0, 0}, nil},
		"as early as needed": {[][]edge{{{1, soft}, {3, strict}}, {{2, strict}}, nil, nil}, []int32{2, 1, 0, 0}, nil},
		"of itself": {[][]edge{{{0, strict}}}, []int32{0}, []order.Cycle{{
			Items: []int{0}, Broken: []order.Broken{{Item: 0, Need: 0}}}}},
		"the soft one is broken": {[][]edge{{{1, strict}}, {{0, soft}}}, []int32{1, 0}, []order.Cycle{{
			Items: []int{0, 1}, Broken: []order.Broken{{Item: 1, Need: 0}}}}},
		"after another cycle": {
			[][]edge{{{1, soft}, {2, soft}}, {{0, strict}}, {{3, strict}}, {{2, strict}}}, []int32{2, 3, 1, 0},
			[]order.Cycle{
				{Items: []int{0, 1}, Broken: []order.Broken{{Item: 0, Need: 0}}},
				{Items: []int{2, 3}, Broken: []order.Broken{{Item: 3, Need: 0}}},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waves, cycles := build(test.items).Waves()
			require.Equal(t, test.waves, waves)
			require.Equal(t, test.cycles, cycles)
		})
	}
}

// TestWavesOfRandomGraphs checks some thousand graphs: each item comes in the first wave after what it needs and is not
// disregarded; only needs within cycles are disregarded, and strict ones only within cycles of strict ones.
func TestWavesOfRandomGraphs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
		items := make([][]edge, 1+random.IntN(12))
		for i := range items {
			for range random.IntN(4) {
				items[i] = append(items[i], edge{random.IntN(len(items)), random.IntN(2) == 0})
			}
		}
		waves, cycles := build(items).Waves()
		broken := map[order.Broken]bool{}
		for _, cycle := range cycles {
			require.NotEmpty(t, cycle.Broken, "%v", items)
			for _, b := range cycle.Broken {
				e := items[b.Item][b.Need]
				require.True(t, reaches(items, e.to, b.Item, e.strict), "need %v of %v is in no cycle", b, items)
				broken[b] = true
			}
		}
		for i, edges := range items {
			var wave int32
			for k, e := range edges {
				if !broken[order.Broken{Item: i, Need: k}] {
					wave = max(wave, waves[e.to]+1)
				}
			}
			require.Equal(t, wave, waves[i], "item %d of %v", i, items)
		}
	}
}

// reaches reports whether an item needs another one, directly or not, by strict needs only or by all.
func reaches(items [][]edge, from, to int, strict bool) bool {
	passed := map[int]bool{}
	var visit func(int) bool
	visit = func(i int) bool {
		if i == to {
			return true
		}
		if passed[i] {
			return false
		}
		passed[i] = true
		for _, e := range items[i] {
			if (e.strict || !strict) && visit(e.to) {
				return true
			}
		}
		return false
	}
	return visit(from)
}

// TestWavesOfLongChains has a chain, a ring and a star of 100,000 items.
func TestWavesOfLongChains(t *testing.T) {
	t.Parallel()
	const n = 100_000
	var chain, ring, star order.Needs
	for i := range n {
		for _, needs := range []*order.Needs{&chain, &ring, &star} {
			needs.Item()
		}
		if i+1 < n {
			chain.Add(i+1, true)
		}
		ring.Add((i+1)%n, i > 0)
		star.Add(0, true)
	}
	waves, cycles := chain.Waves()
	require.Empty(t, cycles)
	require.EqualValues(t, n-1, waves[0])
	waves, cycles = ring.Waves()
	require.Len(t, cycles, 1)
	require.Equal(t, []order.Broken{{Item: 0, Need: 0}}, cycles[0].Broken)
	require.EqualValues(t, n-1, waves[1])
	waves, cycles = star.Waves()
	require.Len(t, cycles, 1)
	require.EqualValues(t, 1, waves[n-1])
}

func BenchmarkMillion(b *testing.B) {
	const n, needs = 1_000_000, 4
	for b.Loop() {
		var all order.Needs
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
		for i := range n {
			all.Item()
			for range needs {
				if i > 0 {
					all.Add(random.IntN(i), true)
				}
			}
		}
		waves, cycles := all.Waves()
		require.Len(b, waves, n)
		require.Empty(b, cycles)
	}
}
