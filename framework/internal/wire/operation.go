package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Progress is progress as it is sent.
func Progress(progress framework.OperationProgress) *shared.OperationProgress {
	return &shared.OperationProgress{
		Completed:      progress.Completed,
		Err:            progress.Err,
		NCompleted:     progress.NCompleted,
		NTotal:         progress.NTotal,
		OperationUnits: progress.Units,
		Description:    progress.Description,
		Started:        sentInstant(progress.Started),
		Updated:        sentInstant(progress.Updated),
	}
}

// sentInstant is at as it is sent; a time that is not known is left out.
func sentInstant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// Timeout is timeout as it is sent; none is left out.
func Timeout(timeout time.Duration) *durationpb.Duration {
	if timeout == 0 {
		return nil
	}
	return durationpb.New(timeout)
}

// Instant is a time as it was sent; one that was left out is the zero time.
func Instant(received *timestamppb.Timestamp) time.Time {
	if received == nil {
		return time.Time{}
	}
	return received.AsTime()
}
