package versioning

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// Ask makes a call for a facade. convert makes of the answer what the hub wants, or says how it breaks the contract, which
// Ask answers as an ErrInvalidReply. A connection that wants to know that, for its books, calls Judge; another need not.
func Ask[Q, A, R any](
	ctx context.Context, p Plugin, call func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q, convert func(*A) (R, error),
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

// Judge tells how reply, the answer to a call with these options, breaks the contract. The error is an ErrInvalidReply.
func Judge(reply any, opts []grpc.CallOption) error {
	for _, option := range opts {
		if judge, ok := option.(interface{ of(reply any) error }); ok {
			return judge.of(reply)
		}
	}
	return nil
}

// judge is the option of a call that takes convert along.
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

// Selector converts what an action answered when asked what it applies to.
func Selector[A interface {
	GetResourceSelector() *shared.ResourceSelector
}](answer A) (framework.ResourceSelector, error) {
	return reply.Selector(answer.GetResourceSelector())
}

// Progress converts what an action answered when asked after an operation.
func Progress[A interface {
	GetProgress() *shared.OperationProgress
}](answer A) (framework.OperationProgress, error) {
	return reply.Progress(answer.GetProgress())
}
