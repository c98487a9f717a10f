package volume

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// MemoryOfFile is the memory that one large file takes while it is moved: kopia holds a piece of up to 8 MiB of it in
	// four forms.
	MemoryOfFile = copies * largestPiece
	// MemoryOfKopia is the memory that kopia takes beside that: two packs of a repository, and buffers that it keeps.
	MemoryOfKopia = 96 << 20

	largestPiece = 8 << 20
	copies       = 4
)

// Budget bounds the memory of files that are moved at once: small files as many as there are workers, and large ones
// only as many as fit. A nil Budget has no bound. It is safe for concurrent use.
type Budget struct{ left *semaphore.Weighted }

// NewBudget returns the budget of a process with a limit of memory in bytes. One large file always fits.
func NewBudget(limit int64) *Budget {
	return &Budget{left: semaphore.NewWeighted(max(limit-MemoryOfKopia, MemoryOfFile))}
}

// take waits until a file of a size fits. release must be called when it was moved.
func (b *Budget) take(ctx context.Context, size int64) (release func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	needs := copies * min(size, largestPiece)
	if err := b.left.Acquire(ctx, needs); err != nil {
		return nil, err
	}
	return func() { b.left.Release(needs) }, nil
}
