package v1

import (
	"context"
	"io"
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// ObjectStore is the interface that an author implements.
//
// The host runs one process per backup storage location (stock Velero: per operation) and gives it the location's
// configuration before all calls. The store is made with that; see framework.WithConfig. Calls come concurrently. Keys
// are complete, with "/" between folders, and never start with one. ctx ends when the caller gives up, when the server
// stops, or at the server's deadline for the call; for a stream it lives until the stream has ended. The host repeats
// no call that returned an error, so what is worth another attempt (a lost connection, a throttled request) is tried
// again inside the call; calls that change nothing are repeated when the process died. An error that names bucket and
// key saves the reader a search.
type ObjectStore interface {
	// PutObject writes all of input.Body, and replaces an existing object. The object must not appear before Body has
	// ended with io.EOF: any other error of Body means that the upload was given up; return the error. Body need not be
	// closed and must not be read after PutObject has returned. An empty Body is an empty object. To return nil before the
	// end of Body is an error of the store.
	PutObject(ctx context.Context, input *PutObjectInput) error
	// ObjectExists reports whether there is an object. A missing object is not an error.
	ObjectExists(ctx context.Context, input *ObjectExistsInput) (*ObjectExistsOutput, error)
	// GetObject opens an object for reading. For an object that does not exist it returns a framework.ErrNotFound.
	GetObject(ctx context.Context, input *GetObjectInput) (*GetObjectOutput, error)
	// ListCommonPrefixes lists the "folders" directly below a prefix. It is not an error if there are none.
	ListCommonPrefixes(ctx context.Context, input *ListCommonPrefixesInput) (*ListCommonPrefixesOutput, error)
	// ListObjects lists all keys that start with a prefix, at any depth. It is not an error if there are none.
	ListObjects(ctx context.Context, input *ListObjectsInput) (*ListObjectsOutput, error)
	// DeleteObject removes an object. That there is none should not be an error: a deletion that was interrupted is done
	// again from the start.
	DeleteObject(ctx context.Context, input *DeleteObjectInput) error
	// CreateSignedURL makes a URL from which anyone can read the object for a time. A store that cannot do that returns an
	// error with the reason, not a framework.ErrUnavailable: users read it at once, unless this project's server offers
	// the files itself. In stock Velero logs and downloads do not work with such a store, everything else does.
	CreateSignedURL(ctx context.Context, input *CreateSignedURLInput) (*CreateSignedURLOutput, error)
}

// LocationConfig has the keys that the host adds to the configuration of every location. A config type that needs one
// of them has a field for it, or embeds LocationConfig.
type LocationConfig struct {
	// Bucket is that of the location.
	Bucket string `json:"bucket,omitempty"`
	// Prefix is that of the location; keys have it already.
	Prefix string `json:"prefix,omitempty"`
	// CACert is a certificate in PEM.
	CACert string `json:"caCert,omitempty"`
	// CredentialsFile is the path of a file with the Secret of the location.
	CredentialsFile string `json:"credentialsFile,omitempty"`
}

// PutObjectInput is an object to be written.
type PutObjectInput struct {
	Bucket string
	Key    string
	Body   io.Reader
	// IfAbsent asks not to replace an object: if there is one, nothing is written and the error is a framework.ErrExists.
	// What decides is the moment at which the object would appear, so that only one of two concurrent calls succeeds. A
	// store that cannot do that may ignore it; the host then looks at the object after the call. Stock Velero never sets
	// it.
	IfAbsent bool
	// RetainUntil, unless zero, asks a Locker to keep the object until then, or for the time that its configuration says.
	// Other stores ignore it. Stock Velero never sets it.
	RetainUntil time.Time
}

// ObjectExistsInput names an object.
type ObjectExistsInput struct {
	Bucket string
	Key    string
}

// ObjectExistsOutput is whether there is an object.
type ObjectExistsOutput struct {
	Exists bool
}

// GetObjectInput names an object.
type GetObjectInput struct {
	Bucket string
	Key    string
	// Range, if set, asks for a part of the object. A store that cannot do that ignores it. Stock Velero never sets it.
	Range *Range
}

// Range is a part of an object.
type Range = glue.Range

// Part is a range as a store sends it.
type Part = glue.Part

// GetObjectOutput is an open object.
type GetObjectOutput struct {
	// Body is closed in any case, also before its end. An error of Close after the end fails the read.
	Body io.ReadCloser
	// Part is set if Body is the range of the input, and nil if it is the whole object.
	Part *Part
}

// ListCommonPrefixesInput selects the folders to list.
type ListCommonPrefixesInput struct {
	Bucket string
	// Prefix is empty or ends in Delimiter.
	Prefix    string
	Delimiter string
}

// ListCommonPrefixesOutput is a list of folders.
type ListCommonPrefixesOutput struct {
	// Prefixes has for each key that starts with the prefix and has the delimiter after it the part up to and with that
	// delimiter, each once.
	Prefixes []string
}

// ListObjectsInput selects the objects to list.
type ListObjectsInput struct {
	Bucket string
	Prefix string
}

// ListObjectsOutput is a list of objects.
type ListObjectsOutput struct {
	Keys []string
}

// DeleteObjectInput names an object.
type DeleteObjectInput struct {
	Bucket string
	Key    string
}

// CreateSignedURLInput describes the URL to sign.
type CreateSignedURLInput struct {
	Bucket string
	Key    string
	// TTL is how long the URL is valid.
	TTL time.Duration
}

// CreateSignedURLOutput is a signed URL.
type CreateSignedURLOutput struct {
	URL string
}

// Register registers the store that newStore makes under name, "example.io/tape", which users write as provider of a
// BackupStorageLocation. See framework.Setup for when newStore is called.
func Register(
	name string, newStore func(context.Context, *framework.Setup) (ObjectStore, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newStore, options)
}
