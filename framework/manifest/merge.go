package manifest

import (
	"container/heap"
	"iter"
)

// merge yields the elements of sorted sequences in their order. Equal elements come together, as one or nil for each
// sequence; of several equal elements in one sequence only the first is used. Nothing comes after an error. The slice
// may be used until the next is asked for.
func merge[T any](compare func(a, b *T) int, sequences ...iter.Seq2[*T, error]) iter.Seq2[[]*T, error] {
	return func(yield func([]*T, error) bool) {
		rest := &heads[T]{compare: compare}
		for i, sequence := range sequences {
			next, stop := iter.Pull2(sequence)
			defer stop()
			h := &head[T]{sequence: i, next: next}
			if err := h.advance(); err != nil {
				yield(nil, err)
				return
			}
			if h.element != nil {
				heap.Push(rest, h)
			}
		}
		equal := make([]*T, len(sequences))
		for rest.Len() > 0 {
			clear(equal)
			least := rest.all[0].element
			for rest.Len() > 0 && compare(rest.all[0].element, least) == 0 {
				h := rest.all[0]
				if equal[h.sequence] == nil {
					equal[h.sequence] = h.element
				}
				if err := h.advance(); err != nil {
					yield(nil, err)
					return
				}
				if h.element == nil {
					heap.Pop(rest)
				} else {
					heap.Fix(rest, 0)
				}
			}
			if !yield(equal, nil) {
				return
			}
		}
	}
}

// head is the first element of the rest of a sequence.
type head[T any] struct {
	sequence int
	element  *T // nil at the end
	next     func() (*T, error, bool)
}

func (h *head[T]) advance() (err error) {
	h.element, err, _ = h.next()
	return err
}

// heads is a heap of the sequences that have not ended, by their first elements.
type heads[T any] struct {
	compare func(a, b *T) int
	all     []*head[T]
}

func (h *heads[T]) Len() int           { return len(h.all) }
func (h *heads[T]) Less(i, j int) bool { return h.compare(h.all[i].element, h.all[j].element) < 0 }
func (h *heads[T]) Swap(i, j int)      { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *heads[T]) Push(x any)         { h.all = append(h.all, x.(*head[T])) } //nolint:forcetypeassert // of heap.Push above

func (h *heads[T]) Pop() any {
	last := len(h.all) - 1
	ended := h.all[last]
	h.all = h.all[:last]
	return ended
}
