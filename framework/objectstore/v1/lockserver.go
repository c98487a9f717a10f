package v1

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/internal/glue"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
)

// lockServer puts the Lockers among the stores of a process on the wire.
type lockServer struct {
	objectlockv1.UnimplementedObjectLockServiceServer
	handlers *glue.Handlers[ObjectStore]
}

// Locks implements objectlockv1.ObjectLockServiceServer.
func (s *lockServer) Locks(ctx context.Context, req *objectlockv1.LocksRequest) (*objectlockv1.LocksResponse, error) {
	return askLocker(ctx, s.handlers, req.GetPlugin(), func(store Locker) (*objectlockv1.LocksResponse, error) {
		locks, err := store.Locks(ctx, &LocksInput{Bucket: req.GetBucket()})
		if err != nil {
			return nil, err
		}
		if locks == nil {
			locks = &Locks{}
		}
		return locks.Wire(), nil
	})
}

// SetHold implements objectlockv1.ObjectLockServiceServer.
func (s *lockServer) SetHold(
	ctx context.Context, req *objectlockv1.SetHoldRequest,
) (*objectlockv1.SetHoldResponse, error) {
	return askLocker(ctx, s.handlers, req.GetPlugin(), func(store Locker) (*objectlockv1.SetHoldResponse, error) {
		err := store.SetHold(ctx, &SetHoldInput{Bucket: req.GetBucket(), Key: req.GetKey(), On: req.GetOn()})
		return &objectlockv1.SetHoldResponse{}, err
	})
}

// Retention implements objectlockv1.ObjectLockServiceServer.
func (s *lockServer) Retention(
	ctx context.Context, req *objectlockv1.RetentionRequest,
) (*objectlockv1.RetentionResponse, error) {
	return askLocker(ctx, s.handlers, req.GetPlugin(), func(store Locker) (*objectlockv1.RetentionResponse, error) {
		kept, err := store.Retention(ctx, &RetentionInput{Bucket: req.GetBucket(), Key: req.GetKey()})
		if err != nil {
			return nil, err
		}
		if kept == nil {
			kept = &Retention{}
		}
		return kept.Wire(), nil
	})
}

// askLocker calls a store. A store that is no Locker does not tell.
func askLocker[R any](
	ctx context.Context, handlers *glue.Handlers[ObjectStore], name string, call func(Locker) (*R, error),
) (*R, error) {
	store, err := handlers.Use(ctx, name)
	if err != nil {
		return nil, err
	}
	defer store.Release()
	locker, ok := store.Handler.(Locker)
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "%s does not tell what its buckets lock", name)
	}
	reply, err := call(locker)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, status.Error(codes.Unimplemented, err.Error())
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}
