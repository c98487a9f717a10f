package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Progress returns progress in its wire form, without LastLines.
func Progress(progress framework.OperationProgress) *shared.OperationProgress {
	return &shared.OperationProgress{
		Completed:      progress.Completed,
		Err:            progress.Err,
		NCompleted:     progress.NCompleted,
		NTotal:         progress.NTotal,
		OperationUnits: progress.Units,
		Description:    progress.Description,
		Started:        SentInstant(progress.Started),
		Updated:        SentInstant(progress.Updated),
	}
}

// ManyProgress returns replies to calls of Progress, by the ids of the operations, as the parts of one reply.
func ManyProgress[R interface {
	GetProgress() *shared.OperationProgress
	GetLastLines() string
}](replies map[string]R,
) (progress map[string]*shared.OperationProgress, lines map[string]string) {
	progress, lines = make(map[string]*shared.OperationProgress, len(replies)), map[string]string{}
	for id, reply := range replies {
		progress[id] = reply.GetProgress()
		if last := reply.GetLastLines(); last != "" {
			lines[id] = last
		}
	}
	return progress, lines
}

// SentInstant returns at in its wire form, nil for an unknown time.
func SentInstant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// Timeout returns timeout in its wire form, nil for none.
func Timeout(timeout time.Duration) *durationpb.Duration {
	if timeout == 0 {
		return nil
	}
	return durationpb.New(timeout)
}

// Instant returns a time of the wire; an absent one is the zero time.
func Instant(received *timestamppb.Timestamp) time.Time {
	if received == nil {
		return time.Time{}
	}
	return received.AsTime()
}
