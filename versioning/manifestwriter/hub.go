package manifestwriter

import (
	"context"
	"io"

	"github.com/cleat-dev/cleat/framework"
)

// Writer is the hub of the kind ManifestWriter, in its newest shape. It is safe for concurrent use. Errors are prefixed
// once with "ManifestWriter(name): ".
type Writer interface {
	Name() string
	// Begin has the plugin describe one backup. keep gets each artifact, one after the other, while items are still
	// added; it runs on a goroutine of the manifest. What keep has been given is worth something only once Finish
	// has returned nil. Whoever has begun a manifest calls Finish or Abort. The end of ctx aborts it.
	Begin(ctx context.Context, input Input, keep Keep) (Manifest, error)
}

// Keep stores an artifact. Its name is checked and comes once per manifest. io.EOF is the artifact's end, and nothing
// but it: one that breaks off is another error, which is to be returned. What Keep does not read is passed over. An
// error ends the manifest.
type Keep func(name string, content io.Reader) error

// Manifest is the description of one backup in the making. Its methods are not called concurrently.
type Manifest interface {
	// Add tells of an item as it is written to the archive. An error means that the manifest has failed; there is
	// no use in adding more, and Finish says the same.
	Add(item *Item) error
	// Finish says that there are no more items, and waits until the last artifact is kept.
	Finish() error
	// Abort gives the manifest up, and waits until keep does not run any more. After Finish it does nothing.
	Abort()
}

// Input is one backup.
type Input struct {
	Config []byte // JSON of an object, as configured for the writer; nil when nothing is
	Backup []byte // the Backup, as JSON
}

// Item is what identifies and selects one object of a backup.
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
}

// Owner is an object that owns an item.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Controller bool
}
