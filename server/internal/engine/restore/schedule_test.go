package restore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// TestAcceptGraph_Order runs some thousand random graphs, with random waits, and checks when each item begins.
func TestAcceptGraph_Order(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable
		order := randomOrder(random)
		s := newSchedule(order)
		var mu sync.Mutex
		passed, done := make([]bool, order.Len()), make([]bool, order.Len())
		var atWork []int
		advance := func() {
			i := random.IntN(len(atWork))
			item := atWork[i]
			mu.Lock()
			defer mu.Unlock()
			if !passed[item] && random.IntN(3) == 0 {
				passed[item] = true
				s.pass(item)
				return
			}
			passed[item], done[item] = true, true
			s.done(item)
			atWork = append(atWork[:i], atWork[i+1:]...)
		}
		for begun := 0; ; {
			level := s.level
			item, ok, left := s.next()
			for _, other := range atWork {
				require.True(t, s.level == level || passed[other], "seed %d: %d is at work, and those of level %d begin", seed,
					other, s.level)
			}
			if !left {
				require.Equal(t, order.Len(), begun)
				break
			}
			if !ok {
				require.NotEmpty(t, atWork, "seed %d: nothing begins and nothing is at work", seed)
				advance()
				continue
			}
			begun++
			for to, strict := range order.Needs.Of(item) {
				require.True(t, done[to] || passed[to] && !strict, "seed %d: %d begins before %d", seed, item, to)
			}
			require.LessOrEqual(t, order.Level[item], s.level)
			atWork = append(atWork, item)
			for len(atWork) > 0 && random.IntN(2) == 0 {
				advance()
			}
		}
	}
}

// randomOrder returns an order of some objects in some resources, with random references.
func randomOrder(random *rand.Rand) *plan.Order {
	order := plan.NewOrder(new(discovery.Snapshot), random.IntN(4) == 0)
	var refs []manifest.Ref
	for level := range 1 + random.IntN(4) {
		gr := schema.GroupResource{Group: "g", Resource: fmt.Sprint("r", level)}
		var entries plan.Entries
		for i := range 1 + random.IntN(5) {
			entries = append(entries, archive.Entry{GroupResource: gr, Name: fmt.Sprint("n", i)})
			refs = append(refs, manifest.Ref{Group: "g", Resource: gr.Resource, Name: fmt.Sprint("n", i)})
		}
		order.AddLevel(gr, level, entries)
	}
	for _, ref := range refs {
		item := &manifest.Item{APIGroup: ref.Group, Resource: ref.Resource, Name: ref.Name}
		for range random.IntN(3) {
			item.Edges = append(item.Edges, manifest.Edge{Type: manifest.Reference, To: refs[random.IntN(len(refs))],
				Strict: random.IntN(2) == 0})
		}
		order.AddEdges(item)
	}
	order.Complete()
	return order
}

func TestScheduleEndsWithItsContext(t *testing.T) {
	t.Parallel()
	order := plan.NewOrder(new(discovery.Snapshot), false)
	gr := schema.GroupResource{Resource: "r"}
	order.AddLevel(gr, 0, plan.Entries{{GroupResource: gr, Name: "a"}})
	order.Complete()
	s := newSchedule(order)
	item, ok := s.take(t.Context())
	require.True(t, ok)
	require.Zero(t, item)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok = s.take(ctx)
	require.False(t, ok, "the item is at work")
	s.done(0)
	_, ok = s.take(t.Context())
	require.False(t, ok, "none is left")
}
