package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/hostapi"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
)

// silence is how long a store may be silent about one object. It may have to send some parts of it meanwhile.
const silence = 2 * time.Minute

// V1 describes version 1 of the kind.
func V1() versioning.Version[Store] {
	return versioning.NewVersion(osv1.Kind(), newV1, versioning.Calls{
		objectstorev1.ObjectStore_Init_FullMethodName:      {Class: versioning.Query, Init: true},
		objectstorev1.ObjectStore_PutObject_FullMethodName: {Class: versioning.Execute, Silence: silence},
		objectstorev1.ObjectStore_ObjectExists_FullMethodName: {
			Class: versioning.Transfer, Repeatable: true, Silence: silence,
		},
		objectstorev1.ObjectStore_GetObject_FullMethodName:          {Class: versioning.Execute, Silence: silence},
		objectstorev1.ObjectStore_ListCommonPrefixes_FullMethodName: {Class: versioning.Transfer, Repeatable: true},
		objectstorev1.ObjectStore_ListObjects_FullMethodName:        {Class: versioning.Transfer, Repeatable: true},
		objectstorev1.ObjectStore_DeleteObject_FullMethodName:       {Class: versioning.Transfer, Silence: silence},
		objectstorev1.ObjectStore_CreateSignedURL_FullMethodName:    {Class: versioning.Transfer, Repeatable: true},
		objectlockv1.ObjectLockService_Locks_FullMethodName:         {Class: versioning.Transfer, Repeatable: true},
		objectlockv1.ObjectLockService_SetHold_FullMethodName:       {Class: versioning.Transfer, Repeatable: true},
		objectlockv1.ObjectLockService_Retention_FullMethodName:     {Class: versioning.Transfer, Repeatable: true},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Store {
	return v1{Plugin: p, client: objectstorev1.NewObjectStoreClient(conn),
		locks: objectlockv1.NewObjectLockServiceClient(conn)}
}

type v1 struct {
	versioning.Plugin
	client objectstorev1.ObjectStoreClient
	locks  objectlockv1.ObjectLockServiceClient // a service beside the kind, which a plugin may lack
}

func (s v1) Init(ctx context.Context, config map[string]string) error {
	_, err := s.client.Init(ctx, &objectstorev1.ObjectStoreInitRequest{Plugin: s.Name(), Config: config})
	return s.Wrap(err)
}

// PutObject closes the sending side only after all of body is sent. In every other case the stream's context
// is cancelled: closing the sending side would look to the plugin like the end of the object.
func (s v1) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.PutObject(ctx)
	if err != nil {
		return s.Wrap(err)
	}
	sent := false
	for piece, err := range hostapi.Pieces(body) {
		if err != nil {
			return s.Wrap(fmt.Errorf("read the content of %s/%s: %w", bucket, key, err))
		}
		if err := s.send(stream, bucket, key, piece); err != nil {
			return err
		}
		sent = true
	}
	if !sent {
		if err := s.send(stream, bucket, key, nil); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return s.Wrap(err)
	}
	_, err = stream.CloseAndRecv()
	return s.Wrap(err)
}

// upload is the sending side of PutObject.
type upload = grpc.ClientStreamingClient[objectstorev1.PutObjectRequest, shared.Empty]

func (s v1) send(stream upload, bucket, key string, piece []byte) error {
	err := stream.Send(&objectstorev1.PutObjectRequest{Plugin: s.Name(), Bucket: bucket, Key: key, Body: piece})
	if err == io.EOF { // the plugin has replied already; its side is read without closing ours
		if err = stream.RecvMsg(&shared.Empty{}); err == nil {
			return s.Reject(errors.New("the plugin reported the object as stored before it received all of it"))
		}
	}
	return s.Wrap(err)
}

func (s v1) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	answer, err := s.client.ObjectExists(ctx, &objectstorev1.ObjectExistsRequest{
		Plugin: s.Name(), Bucket: bucket, Key: key,
	})
	return answer.GetExists(), s.Wrap(err)
}

func (s v1) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.client.GetObject(ctx, &objectstorev1.GetObjectRequest{
		Plugin: s.Name(), Bucket: bucket, Key: key,
	})
	if err != nil {
		cancel()
		return nil, s.Wrap(err)
	}
	opened := &download{receive: stream.Recv, wrap: s.Wrap, cancel: cancel}
	if hostapi.RangeOf(ctx) == nil {
		return opened, nil
	}
	if err := opened.first(); err != nil {
		return nil, err
	}
	header, _ := stream.Header() // it came with the first message; an error would have been that of the message
	opened.part = hostapi.PartOf(header)
	return opened, nil
}

func (s v1) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	return versioning.Ask(ctx, s.Plugin, s.client.ListCommonPrefixes, &objectstorev1.ListCommonPrefixesRequest{
		Plugin: s.Name(), Bucket: bucket, Prefix: prefix, Delimiter: delimiter,
	}, func(answer *objectstorev1.ListCommonPrefixesResponse) ([]string, error) {
		return answer.GetPrefixes(), validatePrefixes(prefix, delimiter, answer.GetPrefixes())
	})
}

func (s v1) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	return versioning.Ask(ctx, s.Plugin, s.client.ListObjects, &objectstorev1.ListObjectsRequest{
		Plugin: s.Name(), Bucket: bucket, Prefix: prefix,
	}, func(answer *objectstorev1.ListObjectsResponse) ([]string, error) {
		return answer.GetKeys(), validateKeys(prefix, answer.GetKeys())
	})
}

func (s v1) DeleteObject(ctx context.Context, bucket, key string) error {
	_, err := s.client.DeleteObject(ctx, &objectstorev1.DeleteObjectRequest{
		Plugin: s.Name(), Bucket: bucket, Key: key,
	})
	return s.Wrap(err)
}

func (s v1) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	return versioning.Ask(ctx, s.Plugin, s.client.CreateSignedURL, &objectstorev1.CreateSignedURLRequest{
		Plugin: s.Name(), Bucket: bucket, Key: key, Ttl: int64(ttl),
	}, func(answer *objectstorev1.CreateSignedURLResponse) (string, error) {
		return answer.GetUrl(), validateURL(answer.GetUrl())
	})
}

func (s v1) Locks(ctx context.Context, bucket string) (*Locks, error) {
	locks, err := versioning.Ask(ctx, s.Plugin, s.locks.Locks, &objectlockv1.LocksRequest{
		Plugin: s.Name(), Bucket: bucket,
	}, hostapi.ReceivedLocks)
	return locks, s.unsupported(err)
}

func (s v1) SetHold(ctx context.Context, bucket, key string, on bool) error {
	_, err := s.locks.SetHold(ctx, &objectlockv1.SetHoldRequest{Plugin: s.Name(), Bucket: bucket, Key: key, On: on})
	return s.unsupported(s.Wrap(err))
}

func (s v1) Retention(ctx context.Context, bucket, key string) (*Retention, error) {
	kept, err := versioning.Ask(ctx, s.Plugin, s.locks.Retention, &objectlockv1.RetentionRequest{
		Plugin: s.Name(), Bucket: bucket, Key: key,
	}, hostapi.ReceivedRetention)
	return kept, s.unsupported(err)
}

// unsupported makes the error of a plugin that does not serve a call, or not for that bucket, errors.ErrUnsupported.
func (s v1) unsupported(err error) error {
	reply, ok := status.FromError(err)
	if err == nil || !ok || reply.Code() != codes.Unimplemented {
		return err
	}
	reason := strings.TrimSuffix(reply.Message(), ": "+errors.ErrUnsupported.Error())
	if strings.Contains(reason, "unknown service") {
		reason = s.Wrap(errors.New("it does not tell what its buckets lock")).Error()
	}
	return fmt.Errorf("%s: %w", reason, errors.ErrUnsupported)
}
