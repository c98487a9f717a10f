package v1

import (
	"context"
	"io"
	"iter"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/register"
	"github.com/cleat-dev/cleat/framework/manifest"
)

// ManifestWriter is the interface that an author implements.
//
// One value serves all calls of a process, concurrently: one call for each backup that runs.
type ManifestWriter interface {
	// Write describes one backup. It is called when the backup begins; items come while it runs, and end when it has them
	// all, so a call lasts as long as the backup. Artifacts can be written at any time, also while items are still to
	// come; they are kept beside the backup once Write has returned nil.
	//
	// Read the items to their end, and without delay: the backup goes no faster than they are read. When their iteration
	// gives an error, the backup was given up; return the error. ctx ends then too. An error of Write is a warning or an
	// error of the backup, as the server is configured, and nothing of the call is kept.
	Write(ctx context.Context, input *WriteInput) error
}

// WriteInput is one backup, and where its artifacts are written to.
type WriteInput struct {
	// Backup is the one that runs, with its defaults set; never nil.
	Backup *velerov1.Backup
	// Items are the items of the backup in the order in which they are written to its archive. An item that is written
	// again comes again; the last one counts. They can be iterated once. Nothing comes after an error.
	Items iter.Seq2[*Item, error]
	// Artifacts receives the files of the writer.
	Artifacts Artifacts
}

// Artifacts takes the artifacts of one backup, one after the other. It is not safe for concurrent use.
type Artifacts interface {
	// Create begins an artifact, and completes the one before it. name has lower-case letters, digits, "-", "_" and ".",
	// begins with a letter or digit, is at most 128 bytes long, and is used once; the server refuses those that it uses
	// itself. What is written to the writer is sent in pieces, so small writes are fine. It must not be used any more
	// after the next Create, or after Write has returned.
	Create(name string) (io.Writer, error)
}

// Item is what identifies and selects one object of a backup. The rest of the object is in the archive. A writer does
// not change the maps, which others may read.
type Item struct {
	Group     string // API group, empty for core
	Version   string // of the API group, in which the object is stored
	Resource  string // plural: "persistentvolumeclaims"
	Kind      string // "PersistentVolumeClaim"
	Namespace string // empty for a cluster-scoped object
	Name      string
	UID       string // of the cluster; may be empty

	Labels      map[string]string
	Annotations map[string]string
	// Owners are those of the object's metadata; they need not be in the backup.
	Owners []Owner
	// Related are objects that an action has related to this one: in its item block, or to be backed up with it.
	Related []framework.ResourceIdentifier
	// References are the dependencies of the object beside its owners: objects that its fields name, and Related with the
	// actions that requested them. They need not be in the backup.
	References []manifest.Edge
	// Included is how the object came into the backup.
	Included manifest.Inclusion
	// Object is the object as it is in the archive, in JSON, if the writer was registered WithObjects of its resource. A
	// writer must cope with nil, which other hosts may send.
	Object []byte
}

// Owner is an object that owns an item; it is in the same namespace, or in none.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Controller bool // it is the one that manages the item
}

// WithObjects requests the whole objects of resources, "pods" or "deployments.apps" or "*" for all. Each is sent to the
// process of the plugin, so a writer should only request the resources that it reads.
func WithObjects(resources ...string) framework.Option {
	return framework.Option(glue.Objects(resources))
}

// Register registers the writer that newWriter makes under name, "example.io/inventory". See framework.Setup for when
// newWriter is called, and framework.WithConfig for writers that users can configure, and WithObjects for those that
// read more than Item has.
func Register(
	name string, newWriter func(context.Context, *framework.Setup) (ManifestWriter, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newWriter, options)
}
