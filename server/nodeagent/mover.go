package nodeagent

import (
	"context"

	"github.com/cleat-dev/cleat/versioning/datamover"
)

// Movers finds the plugins that move data.
type Movers interface {
	// Find returns the mover with a name, or an error if this agent does not have it.
	Find(name string) (datamover.Mover, error)
}

// Repositories opens the repositories with the data of volumes.
type Repositories interface {
	// Open returns the repository of the volumes of a namespace in a location. It is created if that is asked for and it does not exist.
	Open(ctx context.Context, mover datamover.Mover, location, namespace string, create bool) (datamover.Repository, error)
}

// stored is what a backup has stored.
type stored struct {
	id       string
	newBytes int64
	path     string // of the volume
}
