package versioning

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// OneByOne is part of actions that return the progress of one operation per call.
type OneByOne struct{}

// AtOnce returns 0.
func (OneByOne) AtOnce() int { return 0 }

// ProgressOfMany returns nothing.
func (OneByOne) ProgressOfMany(context.Context, []string, []byte) (map[string]framework.OperationProgress, error) {
	return nil, nil
}

// Many is part of actions that may return the progress of many operations per call. It records if the plugin lacks that
// call, which is optional.
type Many struct{ unknown atomic.Bool }

// AtOnce returns the maximum number of operations of a call; 0 if the plugin lacks the call.
func (m *Many) AtOnce() int {
	if m.unknown.Load() {
		return 0
	}
	return hostapi.ManyOperations
}

// Answered takes note of the error of a call, and returns it.
func (m *Many) Answered(err error) error {
	if status.Code(err) == codes.Unimplemented {
		m.unknown.Store(true)
	}
	return err
}

// ManyProgress converts the reply to a ProgressOfMany call. It leaves out invalid elements; the caller gets the error
// from Progress.
func ManyProgress[A interface {
	GetProgress() map[string]*shared.OperationProgress
	GetLastLines() map[string]string
}](answer A) (map[string]framework.OperationProgress, error) {
	all := make(map[string]framework.OperationProgress, len(answer.GetProgress()))
	for id, received := range answer.GetProgress() {
		if progress, err := reply.Progress(received); err == nil {
			progress.LastLines = hostapi.LastLines(answer.GetLastLines()[id])
			all[id] = progress
		}
	}
	return all, nil
}
