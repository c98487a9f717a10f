package node

import (
	"context"

	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// Movers finds the plugins that move data.
type Movers interface {
	// Find returns the mover with a name, or an error if this agent does not have it. Each of its calls has a process of
	// its own, which sees of the node's volumes none but the given one, and that only in a Backup, to read it, and in a
	// Restore. The volume may be the zero value for other calls, and stays open as long as they last.
	Find(name string, volume hostpath.Volume) (datamover.Mover, error)
}

// Repositories opens the repositories with the data of volumes.
type Repositories interface {
	// Create returns the repository of the volumes of a namespace in a location, to store data in. It is created if it
	// does not exist.
	Create(ctx context.Context, mover datamover.Mover, location, namespace string) (datamover.Repository, error)
	// Use calls a function with such a repository, which exists. If the password is wrong, it calls the function again
	// with the public one, if the repository has that: it may be older than the password of the installation.
	Use(ctx context.Context, mover datamover.Mover, location, namespace string, use func(datamover.Repository) error) error
}

// stored is what a backup has stored.
type stored struct {
	id       string
	newBytes int64
	path     string // of the volume
}
