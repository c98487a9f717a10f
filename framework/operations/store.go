package operations

import (
	"context"
	"errors"
)

// Store keeps operations where all processes of a plugin see them. Its methods are called concurrently, in one process and
// in several. What Create and Update have answered without an error survives the end of the process and of the machine.
//
// Errors that the caller acts on wrap those below. All others mean that the store cannot be used at the moment.
type Store interface {
	// Create keeps an operation that there is none of by this ID, and sets its Version; else it is ErrExists. Of several
	// calls for one ID exactly one succeeds.
	Create(ctx context.Context, operation *Operation) error
	// Get is the operation with an ID, ErrNotFound when there is none, and ErrDamaged when there is something that is
	// not understood.
	Get(ctx context.Context, id string) (*Operation, error)
	// Update keeps an operation instead of the one of this ID if that still has the same Version, and sets its new one;
	// else it is ErrConflict, or ErrNotFound when it is gone.
	Update(ctx context.Context, operation *Operation) error
	// Delete forgets the operation with an ID. That there is none is no error.
	Delete(ctx context.Context, id string) error
	// List is the IDs of all operations, in any order.
	List(ctx context.Context) ([]string, error)
}

var (
	// ErrExists is wrapped by the error of Create for an operation that is there already.
	ErrExists = errors.New("the operation exists already")
	// ErrNotFound is wrapped by the error of Get and Update for an operation that is not there.
	ErrNotFound = errors.New("there is no such operation")
	// ErrConflict is wrapped by the error of Update for an operation that has changed since it was read.
	ErrConflict = errors.New("the operation has changed meanwhile")
	// ErrDamaged is wrapped by the error of Get and Update for an operation whose state is not understood.
	ErrDamaged = errors.New("the state of the operation is damaged")
)
