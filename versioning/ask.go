package versioning

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// Ask makes a call for a facade. convert returns the hub's result for the reply, or an error if the reply breaks the
// contract; Ask wraps that error in ErrInvalidReply. For a connection that records metrics, Judge reports whether the
// reply was valid.
func Ask[Q, A, R any](
	ctx context.Context, p Plugin, call func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
	convert func(*A) (R, error),
) (R, error) {
	judge := &judge[A, R]{convert: convert}
	answer, err := call(ctx, request, judge)
	if err == nil && !judge.asked {
		err = judge.of(answer)
	}
	if err != nil {
		var none R
		return none, p.Wrap(err)
	}
	return judge.result, nil
}

// Judge returns an ErrInvalidReply if reply, the reply to a call with these options, breaks the contract.
func Judge(reply any, opts []grpc.CallOption) error {
	for _, option := range opts {
		if judge, ok := option.(interface{ of(reply any) error }); ok {
			return judge.of(reply)
		}
	}
	return nil
}

// judge is the call option that carries convert.
type judge[A, R any] struct {
	grpc.EmptyCallOption
	convert func(*A) (R, error)
	asked   bool
	result  R
}

func (j *judge[A, R]) of(reply any) (err error) {
	answer, ok := reply.(*A)
	if !ok {
		return fmt.Errorf("%w: it is a %T", ErrInvalidReply, reply)
	}
	j.asked = true
	if j.result, err = j.convert(answer); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidReply, err)
	}
	return nil
}

// Selector converts the reply to an AppliesTo call.
func Selector[A interface {
	GetResourceSelector() *shared.ResourceSelector
}](answer A) (framework.ResourceSelector, error) {
	return reply.Selector(answer.GetResourceSelector())
}

// ProgressAndLines converts the reply to a Progress call that has the last lines of the work too.
func ProgressAndLines[A interface {
	GetProgress() *shared.OperationProgress
	GetLastLines() string
}](answer A) (framework.OperationProgress, error) {
	progress, err := reply.Progress(answer.GetProgress())
	progress.LastLines = hostapi.LastLines(answer.GetLastLines())
	return progress, err
}

// Progress converts the reply to a Progress call.
func Progress[A interface {
	GetProgress() *shared.OperationProgress
}](answer A) (framework.OperationProgress, error) {
	return reply.Progress(answer.GetProgress())
}
