package objectstore_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// safe is a tape that keeps objects. A test sets what it says.
type safe struct {
	tape
	locks osv1.Locks
	kept  osv1.Retention
	err   error // of all calls

	until time.Time // of the last upload
	held  string    // the key of the last hold
}

func (s *safe) PutObject(_ context.Context, input *osv1.PutObjectInput) error {
	s.until = input.RetainUntil
	_, err := io.Copy(io.Discard, input.Body)
	return errors.Join(err, s.err)
}

func (s *safe) DeleteObject(context.Context, *osv1.DeleteObjectInput) error { return s.err }

func (s *safe) Locks(_ context.Context, input *osv1.LocksInput) (*osv1.Locks, error) {
	return &s.locks, errors.Join(s.err, in(input.Bucket, "bucket"))
}

func (s *safe) SetHold(_ context.Context, input *osv1.SetHoldInput) error {
	s.held = input.Key
	if !input.On {
		s.held = ""
	}
	return s.err
}

func (s *safe) Retention(_ context.Context, input *osv1.RetentionInput) (*osv1.Retention, error) {
	return &s.kept, errors.Join(s.err, in(input.Key, "key"))
}

func in(got, want string) error {
	if got != want {
		return errors.New("it is " + got + ", want " + want)
	}
	return nil
}

// hubs returns the hub over a store, and the hub over that store behind another one.
func hubs(t *testing.T, written osv1.ObjectStore) map[string]objectstore.Store {
	t.Helper()
	of := func(store osv1.ObjectStore) objectstore.Store {
		hub := objectstore.V1().Bind(plugintest.Serve(t,
			osv1.Register(name,
				func(context.Context, *framework.Setup) (osv1.ObjectStore, error) { return store, nil })), name)
		require.NoError(t, hub.Init(t.Context(), nil))
		return hub
	}
	server, err := osv1.ServeBehind(filepath.Join(t.TempDir(), "s"), written, hclog.NewNullLogger())
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	behind, err := osv1.OpenBehind(t.Context(), osv1.FrontConfig{Store: name, Behind: server.Address()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, behind.Close()) })
	return map[string]objectstore.Store{"a store": of(written), "a store behind another one": of(behind)}
}

func TestLocksArrive(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 27, 18, 0, 0, 123, time.UTC)
	author := &safe{
		locks: osv1.Locks{Versions: osv1.Yes, Lock: osv1.Yes, ConditionalWrites: osv1.No, Mode: osv1.ModeCompliance,
			KeepFor: time.Hour, DefaultMode: osv1.ModeGovernance, DefaultFor: time.Minute},
		kept: osv1.Retention{Mode: osv1.ModeGovernance, Until: until, Held: true},
	}
	for name, hub := range hubs(t, author) {
		locks, err := hub.Locks(t.Context(), "bucket")
		require.NoError(t, err, name)
		require.Equal(t, author.locks, *locks, name)
		kept, err := hub.Retention(t.Context(), "bucket", "key")
		require.NoError(t, err, name)
		require.Equal(t, author.kept, *kept, name)
		require.NoError(t, hub.SetHold(t.Context(), "bucket", "key", true), name)
		require.Equal(t, "key", author.held, name)
		require.NoError(t, hub.SetHold(t.Context(), "bucket", "key", false), name)
		require.Empty(t, author.held, name)
		for _, want := range []time.Time{until, {}} {
			ctx := t.Context()
			if !want.IsZero() {
				ctx = hostapi.RetainUntil(ctx, want)
			}
			require.NoError(t, hub.PutObject(ctx, "bucket", "key", strings.NewReader("x")), name)
			require.Equal(t, want, author.until, name)
		}
	}
}

func TestErrorOfAKeptObjectHasTheTime(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)
	for state, want := range map[string]struct {
		until time.Time
		held  bool
	}{"locked": {until, false}, "held": {time.Time{}, true}, "both": {until, true}} {
		for name, hub := range hubs(t, &safe{err: framework.Locked(want.until, want.held, "delete key: it is %s", state)}) {
			for _, err := range []error{
				hub.DeleteObject(t.Context(), "bucket", "key"),
				hub.PutObject(t.Context(), "bucket", "key", strings.NewReader("x")),
			} {
				require.ErrorIs(t, err, versioning.ErrLocked, name)
				require.EqualError(t, err, "ObjectStore(example.io/tape): delete key: it is "+state, name)
				var locked *framework.LockedError
				require.ErrorAs(t, err, &locked, name)
				require.Equal(t, want.until, locked.Until, name)
				require.Equal(t, want.held, locked.Held, name)
			}
		}
	}
}

func TestStoreThatDoesNotTell(t *testing.T) {
	t.Parallel()
	for what, store := range map[string]osv1.ObjectStore{
		"no Locker":          tape{},
		"not for the bucket": &safe{err: errors.Join(errors.New("the bucket has no Object Lock"), errors.ErrUnsupported)},
	} {
		for name, hub := range hubs(t, store) {
			_, errLocks := hub.Locks(t.Context(), "bucket")
			_, errRetention := hub.Retention(t.Context(), "bucket", "key")
			for _, err := range []error{errLocks, errRetention, hub.SetHold(t.Context(), "bucket", "key", true)} {
				require.ErrorIs(t, err, errors.ErrUnsupported, "%s, %s", what, name)
				require.ErrorContains(t, err, "ObjectStore(example.io/tape)")
			}
		}
	}
	// A plugin that was built for Velero has no such service.
	_, err := newRaw().hub(t).Locks(t.Context(), "bucket")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, err,
		"ObjectStore(example.io/tape): it does not tell what its buckets lock: unsupported operation")
}

// rawLocks sends replies that the framework would never send.
type rawLocks struct {
	objectlockv1.UnimplementedObjectLockServiceServer
	locks *objectlockv1.LocksResponse
	kept  *objectlockv1.RetentionResponse
}

func (r rawLocks) Locks(context.Context, *objectlockv1.LocksRequest) (*objectlockv1.LocksResponse, error) {
	return r.locks, nil
}

func (r rawLocks) Retention(context.Context, *objectlockv1.RetentionRequest) (*objectlockv1.RetentionResponse, error) {
	return r.kept, nil
}

func TestInvalidLocksAreRejected(t *testing.T) {
	t.Parallel()
	for want, reply := range map[string]rawLocks{
		"versions is 7, want 0, 1 or 2": {locks: &objectlockv1.LocksResponse{Versions: 7}},
		"mode is 9, want 0, 1 or 2":     {locks: &objectlockv1.LocksResponse{Mode: 9}},
		"keep_for is":                   {locks: &objectlockv1.LocksResponse{KeepFor: durationpb.New(-time.Second)}},
		"mode or default_mode is set, and": {locks: &objectlockv1.LocksResponse{Mode: 1,
			Lock: objectlockv1.Answer_ANSWER_NO}},
		"mode is 3, want 0, 1 or 2": {kept: &objectlockv1.RetentionResponse{Mode: 3}},
		"want the time of the mode": {kept: &objectlockv1.RetentionResponse{Mode: 1}},
		"until: ": {kept: &objectlockv1.RetentionResponse{Mode: 1,
			Until: &timestamppb.Timestamp{Nanos: -1}}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			hub := objectstore.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
				objectlockv1.RegisterObjectLockServiceServer(server, reply)
			}), name)
			var err error
			if reply.locks != nil {
				_, err = hub.Locks(t.Context(), "bucket")
			} else {
				_, err = hub.Retention(t.Context(), "bucket", "key")
			}
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestInvalidTimeOfALockFailsTheUpload(t *testing.T) {
	t.Parallel()
	for name, hub := range hubs(t, &safe{}) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "cleat-retain-until", "tomorrow")
		err := hub.PutObject(ctx, "bucket", "key", strings.NewReader("x"))
		require.ErrorIs(t, err, versioning.ErrInvalid, name)
		require.ErrorContains(t, err, `cleat-retain-until is "tomorrow", want a time as in RFC 3339`, name)
	}
}
