package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/hashicorp/go-hclog"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// Name is the provider of a BackupStorageLocation that is kept in S3.
const Name = "cleat.dev/s3"

// contentType of all objects; what they hold is nobody's business here.
const contentType = "application/octet-stream"

// Register is the plugin's registration.
func Register() framework.Registration { return objectstorev1.Register(Name, New) }

// New is an S3 store that waits for its Init.
func New(hclog.Logger) (objectstorev1.ObjectStore, error) { return &store{}, nil }

// store implements the author interface ObjectStore.
type store struct {
	location atomic.Pointer[location] // nil before Init
}

// location is what Init makes of the configuration.
type location struct {
	settings
	calls *s3.Client
	signs *s3.Client // knows the public endpoint
}

var _ objectstorev1.ObjectStore = (*store)(nil)

// Init takes the configuration. It does not need the network.
func (s *store) Init(ctx context.Context, config map[string]string) error {
	settings, err := checkConfig(config)
	if err != nil {
		return err
	}
	calls, signs, err := clients(ctx, settings)
	if err != nil {
		return err
	}
	s.location.Store(&location{settings: settings, calls: calls, signs: signs})
	return nil
}

// PutObject uploads an object, in parts when it is large. A failure or the end of ctx takes the parts back.
func (s *store) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	l, dir, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	body = &cancelledReader{ctx: ctx, r: body}
	head, err := readHead(body)
	if err != nil {
		return l.failed("upload", bucket, key, err)
	}
	switch {
	case len(head) < partSize:
		err = put(ctx, dir, key, bytes.NewReader(head), l.checksum)
	case inParts(key):
		err = l.putParts(ctx, bucket, key, head, body)
	default:
		err = put(ctx, dir, key, io.MultiReader(bytes.NewReader(head), body), l.checksum)
	}
	if err != nil {
		return l.failed("upload", bucket, key, err)
	}
	return nil
}

// put uploads an object through the Go CDK.
func put(ctx context.Context, dir *blob.Bucket, key string, body io.Reader, checksum tmtypes.ChecksumAlgorithm) error {
	// The SDK cannot take back what it has sent on a context that has ended. So the end of ctx ends the body, which
	// the SDK takes for a failure, and the upload's own context ends some time later.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(abortGrace, cancel)
		context.AfterFunc(live, func() { timer.Stop() })
	})
	defer stop()
	return dir.Upload(live, key, body, &blob.WriterOptions{
		ContentType: contentType,
		BeforeWrite: func(as func(any) bool) error {
			var input *transfermanager.UploadObjectInput
			if !as(&input) {
				return errors.New("the Go CDK did not tell the upload's input")
			}
			input.ChecksumAlgorithm = checksum
			return nil
		},
	})
}

// ObjectExists reports whether there is such an object. S3 does not tell a missing bucket from a missing
// object here.
func (s *store) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	l, dir, err := s.open(ctx, bucket)
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }()
	found, err := dir.Exists(ctx, key)
	if err != nil {
		return false, l.failed("look for", bucket, key, err)
	}
	return found, nil
}

// GetObject opens an object.
func (s *store) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	l, dir, err := s.open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	r, err := dir.NewReader(ctx, key, nil)
	if err != nil {
		return nil, l.failed("read", bucket, key, err)
	}
	return r, nil
}

// ListCommonPrefixes lists what lies directly below prefix and is deeper.
func (s *store) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	return s.list(ctx, bucket, &blob.ListOptions{Prefix: prefix, Delimiter: delimiter}, func(o *blob.ListObject) bool { return o.IsDir })
}

// ListObjects lists the keys that start with prefix.
func (s *store) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	return s.list(ctx, bucket, &blob.ListOptions{Prefix: prefix}, func(o *blob.ListObject) bool { return !o.IsDir })
}

func (s *store) list(ctx context.Context, bucket string, options *blob.ListOptions, wanted func(*blob.ListObject) bool) ([]string, error) {
	l, dir, err := s.open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	var keys []string
	for objects := dir.List(options); ; {
		object, err := objects.Next(ctx)
		if err == io.EOF {
			slices.Sort(keys)
			return slices.Compact(keys), nil
		}
		if err != nil {
			return nil, l.failed("list", bucket, options.Prefix, err)
		}
		if wanted(object) {
			keys = append(keys, object.Key)
		}
	}
}

// DeleteObject removes an object. A missing one is deleted already.
func (s *store) DeleteObject(ctx context.Context, bucket, key string) error {
	l, dir, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return l.failed("delete", bucket, key, err)
	}
	return nil
}

// CreateSignedURL signs a GET at the public endpoint. It needs no network, so it does not find out whether
// the object is there.
func (s *store) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	l, err := s.ready()
	if err != nil {
		return "", err
	}
	dir, err := s3blob.OpenBucket(ctx, l.signs, bucket, nil)
	if err != nil {
		return "", l.failed("sign a URL of", bucket, key, err)
	}
	defer func() { _ = dir.Close() }()
	url, err := dir.SignedURL(ctx, key, &blob.SignedURLOptions{Expiry: ttl})
	if err != nil {
		return "", l.failed("sign a URL of", bucket, key, err)
	}
	return url, nil
}

func (s *store) ready() (*location, error) {
	if l := s.location.Load(); l != nil {
		return l, nil
	}
	return nil, errors.New("the S3 store was called before Init")
}

// open is the bucket as the Go CDK sees it. It makes no call.
func (s *store) open(ctx context.Context, bucket string) (*location, *blob.Bucket, error) {
	l, err := s.ready()
	if err != nil {
		return nil, nil, err
	}
	dir, err := s3blob.OpenBucket(ctx, l.calls, bucket, &s3blob.Options{
		EncryptionType:             l.encryption,
		KMSEncryptionID:            l.kmsKey,
		RequestChecksumCalculation: l.checksumCalculation(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open bucket %q: %w", bucket, err)
	}
	return l, dir, nil
}

// cancelledReader fails when its context has ended.
type cancelledReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelledReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
