package operations

import (
	"context"
	"errors"
)

// Store keeps operations where all processes of a plugin find them. Its methods are safe for concurrent use, by several
// goroutines and by several processes. A change for which Create or Update has returned nil survives a crash of the
// process and of the machine.
//
// Where a method's comment names one of the errors below, callers depend on errors.Is. Any other error means that the
// store is unavailable at the moment.
type Store interface {
	// Create adds an operation and sets its Version. It returns ErrExists if there is one with the same ID. Of several
	// concurrent calls with one ID exactly one succeeds.
	Create(ctx context.Context, operation *Operation) error
	// Get returns the operation with the given ID. It returns ErrNotFound if there is none, and ErrDamaged if it cannot be
	// decoded.
	Get(ctx context.Context, id string) (*Operation, error)
	// Update replaces the operation with the same ID if its Version is still the given one, and sets the new Version. It
	// returns ErrConflict if the Version differs, ErrNotFound if there is no such operation, and ErrDamaged if the stored
	// one cannot be decoded.
	Update(ctx context.Context, operation *Operation) error
	// Delete removes the operation with the given ID. It returns nil if there is none.
	Delete(ctx context.Context, id string) error
	// List returns the IDs of all operations, in any order.
	List(ctx context.Context) ([]string, error)
}

var (
	// ErrExists is returned by Create for an operation that already exists.
	ErrExists = errors.New("the operation already exists")
	// ErrNotFound is returned by Get and Update for an operation that does not exist.
	ErrNotFound = errors.New("there is no such operation")
	// ErrConflict is returned by Update for an operation that has changed since it was read.
	ErrConflict = errors.New("the operation has changed since it was read")
	// ErrDamaged is returned by Get and Update for an operation whose stored state cannot be decoded.
	ErrDamaged = errors.New("the state of the operation is damaged")
)
