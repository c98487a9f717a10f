package node

import (
	"context"

	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// Movers finds the plugins that move data.
type Movers interface {
	// Find returns the mover with a name, or an error if this agent does not have it. Each call of the mover has a process
	// that serves no other call at the same time. Of the volumes of the node, the process can access only the given one,
	// in a Backup for reading and in a Restore for writing. For other calls, the volume may be the zero value. It must
	// stay open until the calls have returned.
	Find(name string, volume hostpath.Volume) (datamover.Mover, error)
}

// Lost is an error of a mover whose process has ended before it answered. Another attempt may move the data.
type Lost struct {
	Err    error
	Memory bool // the kernel has killed a process for its memory
}

func (l *Lost) Error() string {
	if l.Memory {
		return "it was killed because it needed more memory than its limit: " + l.Err.Error()
	}
	return l.Err.Error()
}

func (l *Lost) Unwrap() error { return l.Err }

// Repositories opens the repositories with the data of volumes.
type Repositories interface {
	// Create returns the repository for the volumes of a namespace in a location, in which data can be stored. It
	// creates the repository if it does not exist. gone is set if it is known as existing and the mover has not found it.
	// If Create creates it again, the warning says what that means.
	Create(
		ctx context.Context, mover datamover.Mover, location, namespace string, gone bool,
	) (r datamover.Repository, warning string, err error)
	// Use calls a function with an existing repository. If the password is wrong and the repository has the public
	// one, which may be older than the password of the installation, Use calls the function again with the public
	// password.
	Use(ctx context.Context, mover datamover.Mover, location, namespace string, use func(datamover.Repository) error) error
	// AwaitMaintenance returns when a repository can be worked with, which it cannot during the maintenance of some
	// movers. Before AwaitMaintenance waits, and after it has waited, it calls a function, which writes whether the load
	// waits.
	AwaitMaintenance(
		ctx context.Context, mover datamover.Mover, location, namespace string, wait func(waits bool) error,
	) error
}

// stored describes the snapshot that a backup has stored.
type stored struct {
	id       string
	newBytes int64
	path     string // of the volume
}
