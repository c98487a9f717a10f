package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// BehindName is the name under which the store behind another one is called.
const BehindName = "cleat.dev/behind"

// unixScheme begins the address of a store behind another one.
const unixScheme = "unix://"

// FrontConfig has the keys in the configuration of a location whose store stands in front of another one
// (framework.RoleInFront). The config type of the store embeds it, and has fields for the keys of its own. All other
// keys of the location are of the store behind.
type FrontConfig struct {
	// Store is the provider of the store behind.
	Store string `json:"store" jsonschema:"The provider of the object store behind this one, like cleat.dev/s3. Its keys are beside this one."`
	// Secret names a Secret of the store in front. The host sets SecretFile to a file with its content.
	Secret string `json:"secret,omitempty" jsonschema:"A Secret in the namespace of the location, and a key in it: NAME/KEY. spec.credential is of the store behind."`
	// SecretFile is the path of a file with that content.
	SecretFile string `json:"secretFile,omitempty" jsonschema:"The path of a file that is mounted in the server, instead of secret."`
	// Behind is the address of the store behind, which the host sets.
	Behind string `json:"behind,omitempty" jsonschema:"Set by the server: how to reach the store behind."`
}

// Behind is the store behind another one. It is safe for concurrent use.
type Behind struct {
	conn   *grpc.ClientConn
	client objectstorev1.ObjectStoreClient
	locks  objectlockv1.ObjectLockServiceClient
}

var _ Locker = (*Behind)(nil)

// OpenBehind returns the store behind another one. Close closes it.
func OpenBehind(ctx context.Context, config FrontConfig) (*Behind, error) {
	if !strings.HasPrefix(config.Behind, unixScheme) {
		return nil, framework.Invalid("config.behind is %q, want the address of the store behind, unix:///PATH, from a "+
			"server that knows the role %s", config.Behind, framework.RoleInFront)
	}
	conn, err := grpc.NewClient(config.Behind, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(behindWindow), grpc.WithInitialConnWindowSize(behindWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, fmt.Errorf("reach the store %s behind: %w", config.Store, err)
	}
	behind := &Behind{conn: conn, client: objectstorev1.NewObjectStoreClient(conn),
		locks: objectlockv1.NewObjectLockServiceClient(conn)}
	request := &objectstorev1.ObjectStoreInitRequest{Plugin: BehindName}
	if _, err := behind.client.Init(ctx, request); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the store %s behind: %w", config.Store, behindError(err)), conn.Close())
	}
	return behind, nil
}

// behindWindow is the flow-control window of calls to a store behind, which moves whole archives.
const behindWindow = 1 << 20

// Close ends the connection.
func (b *Behind) Close() error { return b.conn.Close() }

// PutObject implements ObjectStore.
func (b *Behind) PutObject(ctx context.Context, input *PutObjectInput) error {
	if input.IfAbsent {
		ctx = metadata.AppendToOutgoingContext(ctx, glue.IfAbsentMetadata, "true")
	}
	if !input.RetainUntil.IsZero() {
		ctx = glue.WithRetainUntil(ctx, input.RetainUntil)
	}
	ctx, cancel := context.WithCancel(forRun(ctx))
	defer cancel() // closing the sending side would look like the end of the object
	stream, err := b.client.PutObject(ctx)
	if err != nil {
		return behindError(err)
	}
	send := func(piece []byte) error {
		err := stream.Send(&objectstorev1.PutObjectRequest{Plugin: BehindName, Bucket: input.Bucket, Key: input.Key,
			Body: piece})
		if err == io.EOF { // it has replied already
			if err = stream.RecvMsg(&shared.Empty{}); err == nil {
				err = errStoppedEarly
			}
		}
		return behindError(err)
	}
	sent := false
	for piece, err := range wire.Pieces(input.Body) {
		if err != nil {
			return err
		}
		if err := send(piece); err != nil {
			return err
		}
		sent = true
	}
	if !sent {
		if err := send(nil); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = stream.CloseAndRecv()
	return behindError(err)
}

// ObjectExists implements ObjectStore.
func (b *Behind) ObjectExists(ctx context.Context, input *ObjectExistsInput) (*ObjectExistsOutput, error) {
	reply, err := b.client.ObjectExists(forRun(ctx), &objectstorev1.ObjectExistsRequest{Plugin: BehindName,
		Bucket: input.Bucket, Key: input.Key})
	return &ObjectExistsOutput{Exists: reply.GetExists()}, behindError(err)
}

// GetObject implements ObjectStore. It waits for the beginning of the object, so that a missing one is its error.
func (b *Behind) GetObject(ctx context.Context, input *GetObjectInput) (*GetObjectOutput, error) {
	ctx, cancel := context.WithCancel(forRun(ctx))
	if input.Range != nil {
		ctx = glue.WithRange(ctx, *input.Range)
	}
	stream, err := b.client.GetObject(ctx, &objectstorev1.GetObjectRequest{Plugin: BehindName, Bucket: input.Bucket,
		Key: input.Key})
	if err != nil {
		cancel()
		return nil, behindError(err)
	}
	body := &behindObject{receive: stream.Recv, cancel: cancel}
	if body.next(); body.err != nil && body.err != io.EOF {
		cancel()
		return nil, body.err
	}
	output := &GetObjectOutput{Body: body}
	if input.Range != nil {
		header, _ := stream.Header() // it came with the first message; an error would have been that of the message
		output.Part = glue.PartOf(header)
	}
	return output, nil
}

// ListCommonPrefixes implements ObjectStore.
func (b *Behind) ListCommonPrefixes(
	ctx context.Context, input *ListCommonPrefixesInput,
) (*ListCommonPrefixesOutput, error) {
	reply, err := b.client.ListCommonPrefixes(forRun(ctx), &objectstorev1.ListCommonPrefixesRequest{Plugin: BehindName,
		Bucket: input.Bucket, Prefix: input.Prefix, Delimiter: input.Delimiter})
	return &ListCommonPrefixesOutput{Prefixes: reply.GetPrefixes()}, behindError(err)
}

// ListObjects implements ObjectStore.
func (b *Behind) ListObjects(ctx context.Context, input *ListObjectsInput) (*ListObjectsOutput, error) {
	reply, err := b.client.ListObjects(forRun(ctx), &objectstorev1.ListObjectsRequest{Plugin: BehindName,
		Bucket: input.Bucket, Prefix: input.Prefix})
	return &ListObjectsOutput{Keys: reply.GetKeys()}, behindError(err)
}

// DeleteObject implements ObjectStore.
func (b *Behind) DeleteObject(ctx context.Context, input *DeleteObjectInput) error {
	_, err := b.client.DeleteObject(forRun(ctx), &objectstorev1.DeleteObjectRequest{Plugin: BehindName,
		Bucket: input.Bucket, Key: input.Key})
	return behindError(err)
}

// CreateSignedURL implements ObjectStore.
func (b *Behind) CreateSignedURL(ctx context.Context, input *CreateSignedURLInput) (*CreateSignedURLOutput, error) {
	reply, err := b.client.CreateSignedURL(forRun(ctx), &objectstorev1.CreateSignedURLRequest{Plugin: BehindName,
		Bucket: input.Bucket, Key: input.Key, Ttl: int64(input.TTL)})
	return &CreateSignedURLOutput{URL: reply.GetUrl()}, behindError(err)
}

// Locks implements Locker. The error is errors.ErrUnsupported if the store behind does not tell.
func (b *Behind) Locks(ctx context.Context, input *LocksInput) (*Locks, error) {
	reply, err := b.locks.Locks(forRun(ctx), &objectlockv1.LocksRequest{Plugin: BehindName, Bucket: input.Bucket})
	if err != nil {
		return nil, lockError(err)
	}
	return glue.ReceivedLocks(reply)
}

// SetHold implements Locker.
func (b *Behind) SetHold(ctx context.Context, input *SetHoldInput) error {
	_, err := b.locks.SetHold(forRun(ctx), &objectlockv1.SetHoldRequest{Plugin: BehindName, Bucket: input.Bucket,
		Key: input.Key, On: input.On})
	return lockError(err)
}

// Retention implements Locker.
func (b *Behind) Retention(ctx context.Context, input *RetentionInput) (*Retention, error) {
	reply, err := b.locks.Retention(forRun(ctx), &objectlockv1.RetentionRequest{Plugin: BehindName, Bucket: input.Bucket,
		Key: input.Key})
	if err != nil {
		return nil, lockError(err)
	}
	return glue.ReceivedRetention(reply)
}

// lockError is behindError for the calls of a Locker.
func lockError(err error) error {
	if reply, ok := status.FromError(err); err != nil && ok && reply.Code() == codes.Unimplemented {
		return fmt.Errorf("%s: %w", reply.Message(), errors.ErrUnsupported)
	}
	return behindError(err)
}

// forRun returns a context for calls on behalf of the run that has called the store in front.
func forRun(ctx context.Context) context.Context {
	if run := glue.RunOf(ctx); run != "" {
		return metadata.AppendToOutgoingContext(ctx, glue.RunMetadata, run)
	}
	return ctx
}

// behindError returns the error of a store behind as that has returned it.
func behindError(err error) error {
	reply, ok := status.FromError(err)
	switch {
	case err == nil, !ok:
		return err
	case reply.Code() == codes.Canceled:
		return fmt.Errorf("%s: %w", reply.Message(), context.Canceled)
	case reply.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("%s: %w", reply.Message(), context.DeadlineExceeded)
	}
	if locked := glue.LockedOf(reply); locked != nil {
		return locked
	}
	if known := glue.ErrorOf(reply.Code()); known != nil {
		return glue.Typed(known, "%s", reply.Message())
	}
	return errors.New(reply.Message())
}

// behindObject reads an object that arrives in messages. Only the end of the messages is io.EOF.
type behindObject struct {
	receive func() (*objectstorev1.Bytes, error)
	cancel  context.CancelFunc

	rest []byte // of the message received last
	err  error  // how the messages ended
}

// next receives a message.
func (o *behindObject) next() {
	message, err := o.receive()
	if err != nil && err != io.EOF {
		err = behindError(err)
	}
	o.rest, o.err = message.GetData(), err
}

// Read implements io.Reader.
func (o *behindObject) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(o.rest) == 0 {
		if o.err != nil {
			return 0, o.err
		}
		o.next()
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// Close implements io.Closer. It may come before the end.
func (o *behindObject) Close() error {
	o.cancel()
	return nil
}

// BehindServer serves a store for the one in front of it.
type BehindServer struct {
	address string
	server  *grpc.Server
}

// ServeBehind serves a store at a socket, for hosts and tests. Who can open the socket can use the store: its directory
// must be closed to other users.
func ServeBehind(socket string, store ObjectStore, log hclog.Logger) (*BehindServer, error) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(math.MaxInt32), grpc.InitialWindowSize(behindWindow),
		grpc.InitialConnWindowSize(behindWindow))
	registration := Register(BehindName, func(context.Context, *framework.Setup) (ObjectStore, error) {
		return store, nil
	})
	err := glue.RegisterAll(server, glue.Environment{Log: log}, glue.Registration(registration))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serve a store for the one in front of it: %w", err)
	}
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Error("a store is not served any more for the one in front of it", "error", err)
		}
	}()
	return &BehindServer{address: unixScheme + socket, server: server}, nil
}

// Address returns the value of FrontConfig.Behind.
func (s *BehindServer) Address() string { return s.address }

// Stop ends all calls and removes the socket.
func (s *BehindServer) Stop() { s.server.Stop() }
