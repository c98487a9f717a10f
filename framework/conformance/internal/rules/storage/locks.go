package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/framework/hostapi"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
)

// locks returns what the bucket locks, and the client to ask for more. Of a store that does not tell, as it may,
// nothing is known.
func (s *store) locks(ctx context.Context) (*hostapi.Locks, objectlockv1.ObjectLockServiceClient, error) {
	conn, err := s.needsInit(ctx)
	if err != nil {
		return nil, nil, err
	}
	client := objectlockv1.NewObjectLockServiceClient(conn)
	ctx, cancel := s.Call(ctx)
	defer cancel()
	reply, err := client.Locks(ctx, wire.WithUnknown(&objectlockv1.LocksRequest{Plugin: s.Name, Bucket: s.bucket}))
	if status.Code(err) == codes.Unimplemented {
		return &hostapi.Locks{}, client, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("call Locks: %w", err)
	}
	locks, err := hostapi.ReceivedLocks(reply)
	if err != nil {
		return nil, nil, fmt.Errorf("call Locks: %w", err)
	}
	return locks, client, nil
}

func checkStoreLocks(ctx context.Context, s *store) error {
	_, _, err := s.locks(ctx)
	return err
}

func checkStoreHold(ctx context.Context, s *store) error {
	locks, client, err := s.locks(ctx)
	if err != nil {
		return err
	}
	if locks.Lock != osv1.Yes || locks.DefaultMode != "" { // what the bucket itself locks could not be cleaned up
		return nil
	}
	key := s.folder + "held"
	if err := s.put(ctx, key, strings.NewReader("x")); err != nil {
		return err
	}
	hold := func(on bool) error {
		ctx, cancel := s.Call(ctx)
		defer cancel()
		_, err := client.SetHold(ctx,
			wire.WithUnknown(&objectlockv1.SetHoldRequest{Plugin: s.Name, Bucket: s.bucket, Key: key, On: on}))
		if err != nil {
			return fmt.Errorf("SetHold %t: %w", on, err)
		}
		return nil
	}
	defer func() { _ = hold(false) }()
	for range 2 {
		if err := hold(true); err != nil {
			return err
		}
	}
	if err := s.mustBeHeld(ctx, client, key, true); err != nil {
		return err
	}
	err = s.remove(ctx, key)
	if locked := hostapi.LockedOf(status.Convert(err)); locked == nil || !locked.Held {
		return fmt.Errorf("DeleteObject of a held object answers %v, want FAILED_PRECONDITION with a Locked that says so",
			err)
	}
	if exists, err := s.exists(ctx, key); err != nil || !exists {
		return errors.Join(err, errors.New("DeleteObject has deleted a held object"))
	}
	if err := hold(false); err != nil {
		return err
	}
	if err := s.mustBeHeld(ctx, client, key, false); err != nil {
		return err
	}
	return s.remove(ctx, key)
}

func (s *store) mustBeHeld(
	ctx context.Context, client objectlockv1.ObjectLockServiceClient, key string, want bool,
) error {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	reply, err := client.Retention(ctx,
		wire.WithUnknown(&objectlockv1.RetentionRequest{Plugin: s.Name, Bucket: s.bucket, Key: key}))
	if err != nil {
		return fmt.Errorf("call Retention: %w", err)
	}
	kept, err := hostapi.ReceivedRetention(reply)
	if err != nil {
		return fmt.Errorf("call Retention: %w", err)
	}
	if kept.Held != want {
		return fmt.Errorf("SetHold %t: Retention says afterwards that held is %t", want, kept.Held)
	}
	return nil
}
