package v1

import (
	"context"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
)

// ObjectStore is the interface that an author implements.
//
// The host runs one process per backup storage location (stock Velero: per operation), so one value serves one
// configuration. Init is called first and ends before anything else is called; after that calls come
// concurrently. Keys are whole, with "/" between folders, and never start with one. ctx ends when the caller
// gives up, when the server goes away, or at the server's deadline for the call; for a stream it lives
// until the stream has ended. The host repeats no call that was answered with an error, so what is worth
// another try (a lost connection, a throttled request) is tried again inside the call; those that only ask are
// asked again of the process that takes the place of one that died. An error that names bucket and key saves
// the reader a search.
type ObjectStore interface {
	// Init hands over the location's configuration: what the user wrote, and the keys "bucket", "prefix",
	// and where set "caCert" (PEM) and "credentialsFile" (a path). Keys that are not understood should be
	// an error, so that a typing error is found. Init should not need the network. It is called once; a
	// process that replaces one that died gets the same configuration again.
	Init(ctx context.Context, config map[string]string) error
	// PutObject writes all of body to key, or replaces what is there. The object must not appear before
	// body has ended with io.EOF: any other error from body means that the upload was given up, and the
	// error is to be returned. body need not be closed and must not be read after PutObject has returned.
	// An empty body is an empty object. Returning nil before the end of body is an error of the store.
	PutObject(ctx context.Context, bucket, key string, body io.Reader) error
	// ObjectExists says whether there is an object at key; that there is none is no error.
	ObjectExists(ctx context.Context, bucket, key string) (bool, error)
	// GetObject opens an object for reading; an object that does not exist is an error. The reader is
	// closed in any case, also before its end, and an error of Close after the end fails the read.
	GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error)
	// ListCommonPrefixes lists the "folders" directly below prefix: of each key that starts with prefix and
	// has delimiter after it, the part up to and with that delimiter, each once. prefix is empty or ends in
	// delimiter. None is an empty list, no error.
	ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error)
	// ListObjects lists all keys that start with prefix, at any depth. None is an empty list, no error.
	ListObjects(ctx context.Context, bucket, prefix string) ([]string, error)
	// DeleteObject removes an object. That it is not there should not be an error: a deletion that was
	// interrupted is done again from the start.
	DeleteObject(ctx context.Context, bucket, key string) error
	// CreateSignedURL makes a URL from which anyone can read the object for ttl. A store that cannot do
	// that returns an error; logs and downloads do not work with it then, everything else does.
	CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error)
}

// Register registers the store that newStore makes under name, "example.io/tape", which users write as provider
// of a BackupStorageLocation. newStore is called at the first call for name; its logger writes to the log of
// the running operation.
func Register(name string, newStore func(hclog.Logger) (ObjectStore, error)) framework.Registration {
	return framework.Register(Kind(), name, newStore)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[ObjectStore] {
	return framework.Kind[ObjectStore]{Wire: "ObjectStore", Bind: bind}
}
