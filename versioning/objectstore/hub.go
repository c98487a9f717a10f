package objectstore

import (
	"context"
	"io"
	"time"

	"github.com/cleat-dev/cleat/framework/hostapi"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// Store is the hub of the kind ObjectStore: one bucket-like service, initialized once per process with
// the configuration of a backup storage location. Keys use "/" as separator. Safe for concurrent use
// after Init. Errors are prefixed once with "ObjectStore(name): ".
type Store interface {
	Name() string
	// Init passes the location's configuration. It is called once per process, before any other method,
	// and repeated by the host after a restart of the process.
	Init(ctx context.Context, config map[string]string) error
	// PutObject streams body to bucket/key; the object appears whole or not at all if the plugin can
	// do that. An error from body, or a cancelled ctx, aborts the upload. With a ctx of hostapi.IfAbsent the error is a
	// versioning.ErrExists if there is such an object, in stores that support that; others replace it.
	PutObject(ctx context.Context, bucket, key string, body io.Reader) error
	ObjectExists(ctx context.Context, bucket, key string) (bool, error)
	// GetObject streams an object; the caller closes the reader. A missing object is an error, at the
	// call or at the first Read. With a ctx of hostapi.WithRange, PartOf tells whether the store sends that range.
	GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error)
	// ListCommonPrefixes lists the "directories" right below prefix. Each should be whole and end in delimiter. Stores of
	// Velero leave out prefix, the delimiter at the end, or both, because Velero cuts them off; callers do the same.
	ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error)
	// ListObjects lists all keys that start with prefix.
	ListObjects(ctx context.Context, bucket, prefix string) ([]string, error)
	DeleteObject(ctx context.Context, bucket, key string) error
	// CreateSignedURL returns a URL that anyone can read for ttl.
	CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error)

	// Locks returns what a bucket locks. The error is errors.ErrUnsupported if the store does not tell, as those built for
	// Velero do not; nothing is to be assumed then. PutObject with a ctx of hostapi.RetainUntil locks an object. PutObject
	// and DeleteObject return a versioning.ErrLocked for an object that is kept.
	Locks(ctx context.Context, bucket string) (*Locks, error)
	// SetHold holds an object, or ends that. The error is errors.ErrUnsupported as that of Locks.
	SetHold(ctx context.Context, bucket, key string, on bool) error
	// Retention returns until when an object is kept. The error is errors.ErrUnsupported as that of Locks.
	Retention(ctx context.Context, bucket, key string) (*Retention, error)
}

// Locks is what a bucket locks.
type Locks = hostapi.Locks

// Retention is until when an object is kept.
type Retention = hostapi.Retention

// Answer is whether a bucket has an ability: Yes or No. The zero value stands for unknown.
type Answer = objectstorev1.Answer

const (
	// Yes says that a bucket has an ability.
	Yes = objectstorev1.Yes
	// No says that a bucket does not have an ability.
	No = objectstorev1.No
)
