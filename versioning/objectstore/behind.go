package objectstore

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework/hostapi"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// BehindServer serves a store for the one in front of it.
type BehindServer = objectstorev1.BehindServer

// ServeBehind serves the store that get returns at each call, at a socket, for a store in front of it. forRun returns the
// context of a call on behalf of a run. Who can open the socket can use the store: its directory must be closed to
// other users.
func ServeBehind(
	socket string, get func() Store, forRun func(ctx context.Context, run string) context.Context, log hclog.Logger,
) (*BehindServer, error) {
	return objectstorev1.ServeBehind(socket, adapter{get: get, forRun: forRun}, log)
}

// adapter offers a hub as authors implement a store.
type adapter struct {
	get    func() Store
	forRun func(ctx context.Context, run string) context.Context
}

var _ objectstorev1.Locker = adapter{}

// of returns the context of a call for the run that has called the store in front.
func (a adapter) of(ctx context.Context) context.Context {
	if run := hostapi.RunOf(ctx); run != "" {
		return a.forRun(ctx, run)
	}
	return ctx
}

// PutObject implements objectstorev1.ObjectStore.
func (a adapter) PutObject(ctx context.Context, input *objectstorev1.PutObjectInput) error {
	ctx = a.of(ctx)
	if input.IfAbsent {
		ctx = hostapi.IfAbsent(ctx)
	}
	if !input.RetainUntil.IsZero() {
		ctx = hostapi.RetainUntil(ctx, input.RetainUntil)
	}
	return a.get().PutObject(ctx, input.Bucket, input.Key, input.Body)
}

// ObjectExists implements objectstorev1.ObjectStore.
func (a adapter) ObjectExists(
	ctx context.Context, input *objectstorev1.ObjectExistsInput,
) (*objectstorev1.ObjectExistsOutput, error) {
	exists, err := a.get().ObjectExists(a.of(ctx), input.Bucket, input.Key)
	return &objectstorev1.ObjectExistsOutput{Exists: exists}, err
}

// GetObject implements objectstorev1.ObjectStore.
func (a adapter) GetObject(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	ctx = a.of(ctx)
	if input.Range != nil {
		ctx = hostapi.WithRange(ctx, *input.Range)
	}
	body, err := a.get().GetObject(ctx, input.Bucket, input.Key)
	if err != nil {
		return nil, err
	}
	return &objectstorev1.GetObjectOutput{Body: body, Part: PartOf(body)}, nil
}

// ListCommonPrefixes implements objectstorev1.ObjectStore.
func (a adapter) ListCommonPrefixes(
	ctx context.Context, input *objectstorev1.ListCommonPrefixesInput,
) (*objectstorev1.ListCommonPrefixesOutput, error) {
	prefixes, err := a.get().ListCommonPrefixes(a.of(ctx), input.Bucket, input.Prefix, input.Delimiter)
	return &objectstorev1.ListCommonPrefixesOutput{Prefixes: prefixes}, err
}

// ListObjects implements objectstorev1.ObjectStore.
func (a adapter) ListObjects(
	ctx context.Context, input *objectstorev1.ListObjectsInput,
) (*objectstorev1.ListObjectsOutput, error) {
	keys, err := a.get().ListObjects(a.of(ctx), input.Bucket, input.Prefix)
	return &objectstorev1.ListObjectsOutput{Keys: keys}, err
}

// DeleteObject implements objectstorev1.ObjectStore.
func (a adapter) DeleteObject(ctx context.Context, input *objectstorev1.DeleteObjectInput) error {
	return a.get().DeleteObject(a.of(ctx), input.Bucket, input.Key)
}

// CreateSignedURL implements objectstorev1.ObjectStore.
func (a adapter) CreateSignedURL(
	ctx context.Context, input *objectstorev1.CreateSignedURLInput,
) (*objectstorev1.CreateSignedURLOutput, error) {
	url, err := a.get().CreateSignedURL(a.of(ctx), input.Bucket, input.Key, input.TTL)
	return &objectstorev1.CreateSignedURLOutput{URL: url}, err
}

// Locks implements objectstorev1.Locker.
func (a adapter) Locks(ctx context.Context, input *objectstorev1.LocksInput) (*objectstorev1.Locks, error) {
	return a.get().Locks(a.of(ctx), input.Bucket)
}

// SetHold implements objectstorev1.Locker.
func (a adapter) SetHold(ctx context.Context, input *objectstorev1.SetHoldInput) error {
	return a.get().SetHold(a.of(ctx), input.Bucket, input.Key, input.On)
}

// Retention implements objectstorev1.Locker.
func (a adapter) Retention(
	ctx context.Context, input *objectstorev1.RetentionInput,
) (*objectstorev1.Retention, error) {
	return a.get().Retention(a.of(ctx), input.Bucket, input.Key)
}
