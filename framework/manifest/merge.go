package manifest

import "iter"

// merge yields the elements of sorted sequences in their order. Those that compare as equal come together, as one or nil for each
// sequence; of several in one sequence it is the first. Nothing comes after an error. The slice may be used until the next is asked for.
func merge[T any](compare func(a, b *T) int, sequences ...iter.Seq2[*T, error]) iter.Seq2[[]*T, error] {
	return func(yield func([]*T, error) bool) {
		heads := make([]head[T], len(sequences))
		for i, sequence := range sequences {
			next, stop := iter.Pull2(sequence)
			defer stop()
			heads[i].next = next
			if err := heads[i].advance(); err != nil {
				yield(nil, err)
				return
			}
		}
		equal := make([]*T, len(heads))
		for {
			least := least(compare, heads)
			if least == nil {
				return
			}
			for i := range heads {
				h, taken := &heads[i], (*T)(nil)
				for h.element != nil && compare(h.element, least) == 0 {
					if taken == nil {
						taken = h.element
					}
					if err := h.advance(); err != nil {
						yield(nil, err)
						return
					}
				}
				equal[i] = taken
			}
			if !yield(equal, nil) {
				return
			}
		}
	}
}

// head is the first element of what is left of a sequence.
type head[T any] struct {
	element *T // nil at the end
	next    func() (*T, error, bool)
}

func (h *head[T]) advance() (err error) {
	h.element, err, _ = h.next()
	return err
}

// least returns the element that comes first, or nil if there is none.
func least[T any](compare func(a, b *T) int, heads []head[T]) *T {
	var least *T
	for _, h := range heads {
		if h.element != nil && (least == nil || compare(h.element, least) < 0) {
			least = h.element
		}
	}
	return least
}
