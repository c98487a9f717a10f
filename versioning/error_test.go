package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
)

// diedError represents the error that a connection returns when the process has exited.
type diedError struct{ exit int }

func (e *diedError) Error() string { return fmt.Sprintf("the process ended with status %d", e.exit) }

func TestWrapNamesPluginOnceAndKeepsCause(t *testing.T) {
	t.Parallel()
	plugin := versioning.NewPlugin("BackupItemAction", "example.io/stamp")
	for name, test := range map[string]struct {
		err  error
		want string
		is   error
	}{
		"a plugin's error": {status.Error(codes.Unknown, "disk full"), "disk full", nil},
		"a panic":          {status.Error(codes.Aborted, "plugin panicked: x"), "plugin panicked: x", nil},
		"no message":       {status.Error(codes.Internal, ""), "failed without a message, code Internal", nil},
		"cancelled":        {status.Error(codes.Canceled, "context canceled"), "context canceled", context.Canceled},
		"too late": {status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
			"context deadline exceeded", context.DeadlineExceeded},
		"cancelled, no status":   {context.Canceled, "context canceled", context.Canceled},
		"the process has exited": {&diedError{exit: 3}, "the process ended with status 3", nil},
		"a status, explained": {fmt.Errorf("restarted: %w", status.Error(codes.Unavailable, "eof")),
			"restarted: rpc error: code = Unavailable desc = eof", nil},
		"wrapped already": {plugin.Wrap(errors.New("disk full")), "disk full", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plugin.Wrap(test.err)
			require.EqualError(t, got, "BackupItemAction(example.io/stamp): "+test.want)
			require.ErrorIs(t, got, test.err)
			if test.is != nil {
				require.ErrorIs(t, got, test.is)
			} else {
				require.NotErrorIs(t, got, context.Canceled)
				require.NotErrorIs(t, got, context.DeadlineExceeded)
			}
		})
	}
	require.NoError(t, plugin.Wrap(nil))

	var died *diedError
	require.ErrorAs(t, plugin.Wrap(fmt.Errorf("call: %w", &diedError{exit: 3})), &died)
	require.Equal(t, 3, died.exit)
}

func TestErrorOfAnotherPluginIsPrefixed(t *testing.T) {
	t.Parallel()
	inner := versioning.NewPlugin("ObjectStore", "a.b/c").Wrap(errors.New("no bucket"))
	require.EqualError(t, versioning.NewPlugin("ObjectStore", "a.b/d").Wrap(inner),
		"ObjectStore(a.b/d): ObjectStore(a.b/c): no bucket")
}

func TestErrorHasPositionFromPlugin(t *testing.T) {
	t.Parallel()
	located, err := status.New(codes.Unknown, "disk full").WithDetails(&shared.Stack{Frames: []*shared.StackFrame{
		{File: "stamp.go", Line: 42, Function: "main.stamp"}, {File: "main.go", Line: 7, Function: "main.main"},
	}})
	require.NoError(t, err)
	plugin := versioning.NewPlugin("BackupItemAction", "example.io/stamp")

	var got *versioning.Error
	require.ErrorAs(t, plugin.Wrap(located.Err()), &got)
	require.Equal(t, "stamp.go", got.File())
	require.EqualValues(t, 42, got.Line())
	require.Equal(t, "main.stamp", got.Function())
	require.Len(t, got.Frames, 2)

	require.ErrorAs(t, plugin.Wrap(errors.New("disk full")), &got)
	require.Empty(t, got.File())
	require.Zero(t, got.Line())
	require.Empty(t, got.Function())
}

func TestRejectIsAnInvalidReply(t *testing.T) {
	t.Parallel()
	err := versioning.NewPlugin("BackupItemAction", "example.io/stamp").Reject(errors.New("item is empty"))
	require.EqualError(t, err, "BackupItemAction(example.io/stamp): invalid reply: item is empty")
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
}

func TestFrameworkErrorIsFoundByStatus(t *testing.T) {
	t.Parallel()
	plugin := versioning.NewPlugin("BackupItemAction", "example.io/stamp")
	all := []error{versioning.ErrNotFound, versioning.ErrUnavailable, versioning.ErrInvalid}
	for code, want := range map[codes.Code]error{
		codes.NotFound: versioning.ErrNotFound, codes.Unavailable: versioning.ErrUnavailable,
		codes.InvalidArgument: versioning.ErrInvalid, codes.Unknown: nil,
	} {
		err := plugin.Wrap(status.Error(code, "no operation x"))
		require.EqualError(t, err, "BackupItemAction(example.io/stamp): no operation x")
		for _, one := range all {
			require.Equal(t, one == want, errors.Is(err, one), code) //nolint:errorlint // compares the sentinels themselves
		}
	}
}
