package manifestwriter

import (
	"context"
	"io"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/manifest"
)

// Writer is the hub of the kind ManifestWriter, in its newest shape. It is safe for concurrent use. Errors are prefixed
// once with "ManifestWriter(name): ".
type Writer interface {
	Name() string
	// Begin lets the plugin describe one backup. keep gets each artifact, one after the other, while items are still
	// added; it runs on a goroutine of the manifest. The artifacts are valid only once Finish
	// has returned nil. The caller must call Finish or Abort. The end of ctx aborts the manifest.
	Begin(ctx context.Context, input Input, keep Keep) (Manifest, error)
}

// Keep stores an artifact. Its name is valid and unique in the manifest. Only the end of the whole artifact is io.EOF:
// if the artifact breaks off, Read returns another error, which Keep must return. Content that Keep does not read is
// skipped. An error ends the manifest.
type Keep func(name string, content io.Reader) error

// Manifest is the description of one backup while it is written. Its methods must not be called concurrently.
type Manifest interface {
	// Add adds items that were written to the archive, in that order; it is one message to the plugin. An error means that
	// the manifest has failed; there is no use in adding more, and Finish returns the same error.
	Add(items ...*Item) error
	// Finish ends the items, and waits until the last artifact is kept.
	Finish() error
	// Abort ends the manifest without a result, and waits until keep has returned. After Finish it does nothing.
	Abort()
}

// Input is one backup.
type Input struct {
	Config []byte // JSON of an object, as configured for the writer; nil when nothing is
	Backup []byte // the Backup, as JSON
}

// Item identifies one object of a backup, with the properties by which writers select.
type Item struct {
	Group     string // API group, empty for core
	Version   string
	Resource  string // plural
	Kind      string
	Namespace string // empty for a cluster-scoped object
	Name      string
	UID       string // may be empty

	Labels      map[string]string
	Annotations map[string]string
	Owners      []Owner
	Related     []framework.ResourceIdentifier // tied to it by an action
	References  []manifest.Edge                // its dependencies beside its owners
	Included    manifest.Inclusion
	Object      []byte // JSON, for a writer that has announced the resource; nil for others
}

// Owner is an object that owns an item.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Controller bool
}
