package s3store

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what S3 wants
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/internal/bucket"
)

// Name is the provider of a BackupStorageLocation in S3.
const Name = "cleat.dev/s3"

// contentType is the same for all objects.
const contentType = "application/octet-stream"

// Register returns the plugin's registration.
func Register() framework.Registration {
	return objectstorev1.Register(Name, func(ctx context.Context, setup *framework.Setup) (objectstorev1.ObjectStore,
		error) {
		return New(ctx, framework.Config[Config](setup))
	}, framework.WithConfig(Defaults()))
}

// New returns the S3 store of a location with a valid configuration. It does not use the network.
func New(ctx context.Context, config Config) (objectstorev1.ObjectStore, error) {
	calls, signs, err := clients(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &store{config: config, calls: calls, signs: signs}
	s.Calls = bucket.Calls{Open: s.open, Failed: s.failed}
	return s, nil
}

// store implements the author interface Locker.
type store struct {
	bucket.Calls
	config Config
	calls  *s3.Client
	signs  *s3.Client // uses the public endpoint

	mu         sync.Mutex
	buckets    map[string]bucketState
	conditions objectstorev1.Answer // whether the server takes conditional writes
}

var _ objectstorev1.Locker = (*store)(nil)

// PutObject uploads an object, in parts if it is large, and locks it if the config says so. A failure or the end of ctx
// aborts the upload. The condition of IfAbsent is dropped if the server does not support it.
func (s *store) PutObject(ctx context.Context, input *objectstorev1.PutObjectInput) error {
	bucket, key := input.Bucket, input.Key
	if input.IfAbsent {
		version, err := s.behindMarker(ctx, bucket, key)
		if err != nil {
			return err
		}
		if version != "" { // for S3 there is none
			return framework.Exists("upload %s in bucket %q: there is such an object, which is locked, behind a delete marker",
				key, bucket)
		}
	}
	dir, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	body := &cancelledReader{ctx: ctx, r: input.Body}
	head, err := readHead(body)
	if err != nil {
		return s.failed("upload", bucket, key, err)
	}
	upload := func(body io.Reader, ifAbsent bool) error {
		return put(ctx, dir, key, body, s.config.checksum(), ifAbsent, s.lockOf(input))
	}
	switch {
	case len(head) < partSize && s.lockOf(input).mode != "" && inParts(key):
		err = s.unlessUnsupported(input.IfAbsent, func(ifAbsent bool) error {
			return s.putLocked(ctx, bucket, key, head, ifAbsent, s.lockOf(input))
		})
	case len(head) < partSize:
		err = s.unlessUnsupported(input.IfAbsent,
			func(ifAbsent bool) error { return upload(bytes.NewReader(head), ifAbsent) })
	case inParts(key):
		err = s.putParts(ctx, bucket, key, head, body, input.IfAbsent, s.lockOf(input))
	default:
		err = upload(io.MultiReader(bytes.NewReader(head), body), input.IfAbsent)
	}
	switch {
	case input.IfAbsent && isConditionFailed(err):
		s.learn(true)
		return framework.Exists("upload %s in bucket %q: there is such an object", key, bucket)
	case err != nil:
		return s.failed("upload", bucket, key, err)
	}
	return nil
}

// unlessUnsupported makes a request, and makes it again without its condition if the server does not support that.
func (s *store) unlessUnsupported(ifAbsent bool, request func(ifAbsent bool) error) error {
	err := request(ifAbsent)
	if ifAbsent && isUnsupported(err) {
		s.learn(false)
		err = request(false)
	}
	return err
}

// putLocked uploads a small object that is locked. S3 then wants a checksum of any kind.
func (s *store) putLocked(ctx context.Context, bucket, key string, content []byte, ifAbsent bool, locked lock) error {
	request := &s3.PutObjectInput{
		Bucket: &bucket, Key: &key, Body: bytes.NewReader(content), ContentType: aws.String(contentType),
		ChecksumAlgorithm:    types.ChecksumAlgorithm(s.config.ChecksumAlgorithm),
		ContentMD5:           s.md5(content, locked),
		ServerSideEncryption: s.config.encryption(),
		ObjectLockMode:       locked.mode, ObjectLockRetainUntilDate: locked.at(),
	}
	if s.config.KMSKeyID != "" {
		request.SSEKMSKeyId = &s.config.KMSKeyID
	}
	if ifAbsent {
		request.IfNoneMatch = aws.String("*")
	}
	_, err := s.calls.PutObject(ctx, request)
	return err
}

// md5 returns the checksum of content if it is to be locked and carries no other one.
func (s *store) md5(content []byte, locked lock) *string {
	if locked.mode == "" || s.config.ChecksumAlgorithm != "" {
		return nil
	}
	sum := md5.Sum(content) //nolint:gosec // what S3 wants
	return aws.String(base64.StdEncoding.EncodeToString(sum[:]))
}

// put uploads an object through the Go CDK.
func put(
	ctx context.Context, dir *blob.Bucket, key string, body io.Reader, checksum tmtypes.ChecksumAlgorithm, ifAbsent bool,
	locked lock,
) error {
	// The SDK cannot abort the upload with a context that has ended. So the end of ctx ends the body, which the SDK
	// treats as a failure, and the upload's own context ends some time later.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(abortGrace, cancel)
		context.AfterFunc(live, func() { timer.Stop() })
	})
	defer stop()
	return dir.Upload(live, key, body, &blob.WriterOptions{
		ContentType: contentType,
		IfNotExist:  ifAbsent,
		BeforeWrite: func(as func(any) bool) error {
			var input *transfermanager.UploadObjectInput
			if !as(&input) {
				return errors.New("the Go CDK did not tell the upload's input")
			}
			input.ChecksumAlgorithm = checksum
			input.ObjectLockMode, input.ObjectLockRetainUntilDate = tmtypes.ObjectLockMode(locked.mode), locked.at()
			return nil
		},
	})
}

// CreateSignedURL signs a GET at the public endpoint. It does not use the network, so it does not check whether the
// object exists.
func (s *store) CreateSignedURL(
	ctx context.Context, input *objectstorev1.CreateSignedURLInput,
) (*objectstorev1.CreateSignedURLOutput, error) {
	bucket, key := input.Bucket, input.Key
	dir, err := s3blob.OpenBucket(ctx, s.signs, bucket, nil)
	if err != nil {
		return nil, s.failed("sign a URL of", bucket, key, err)
	}
	defer func() { _ = dir.Close() }()
	url, err := dir.SignedURL(ctx, key, &blob.SignedURLOptions{Expiry: input.TTL})
	if err != nil {
		return nil, s.failed("sign a URL of", bucket, key, err)
	}
	return &objectstorev1.CreateSignedURLOutput{URL: url}, nil
}

// open returns the bucket of the Go CDK. It sends no request.
func (s *store) open(ctx context.Context, bucket string) (*blob.Bucket, error) {
	dir, err := s3blob.OpenBucket(ctx, s.calls, bucket, &s3blob.Options{
		EncryptionType:             s.config.encryption(),
		KMSEncryptionID:            s.config.KMSKeyID,
		RequestChecksumCalculation: s.config.checksumCalculation(),
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %q: %w", bucket, err)
	}
	return dir, nil
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
