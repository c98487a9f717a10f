package nodeagent

import (
	"context"

	"github.com/cleat-dev/cleat/server/nodeagent/hostpath"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// Movers finds the plugins that move data.
type Movers interface {
	// Find returns the mover with a name, or an error if this agent does not have it. Each of its calls has a process of its own, which sees
	// of the node's volumes none but the given one, and that only in a Backup, to read it, and in a Restore. The volume may be the zero
	// value for other calls, and stays open as long as they last.
	Find(name string, volume hostpath.Volume) (datamover.Mover, error)
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
