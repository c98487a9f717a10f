package datamover

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
	"github.com/cleat-dev/cleat/versioning"
)

// message is one message of a reply: progress, a result of type R, or something of a newer protocol.
type message[A, R any] interface {
	*A
	GetProgress() *datamoverv1.Progress
	GetResult() *R
}

// follow makes a call, hands over its progress, and returns its result as convert has validated it.
func follow[Q, A, R, H any, M message[A, R]](
	ctx context.Context, p versioning.Plugin,
	call func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A], error), request *Q,
	report func(Progress), convert func(*R) (H, error),
) (H, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var result, none H
	stream, err := call(ctx, request)
	if err != nil {
		return none, p.Wrap(err)
	}
	received := replies[R]{report: report, convert: func(sent *R) (err error) {
		result, err = convert(sent)
		return err
	}}
	for {
		sent, err := stream.Recv()
		if err != nil && err != io.EOF {
			return none, p.Wrap(err)
		}
		switch {
		case err == nil:
			err = received.take(M(sent).GetProgress(), M(sent).GetResult())
		case received.complete:
			return result, nil
		default:
			err = errors.New("the call ended without a result")
		}
		if err != nil {
			err = p.Reject(err)
			cancel(err) // for a connection that records metrics: the reply is invalid
			return none, err
		}
	}
}

// replies are the messages of one call.
type replies[R any] struct {
	report   func(Progress) // may be nil
	convert  func(*R) error
	shown    shown
	complete bool // the result has come
}

// take takes the content of one message. One without content is of a newer protocol.
func (r *replies[R]) take(progress *datamoverv1.Progress, result *R) error {
	if r.complete {
		return errors.New("there is a message after the result")
	}
	if progress != nil {
		if err := r.shown.advance(progress); err != nil {
			return err
		}
		if r.report != nil {
			r.report(Progress(r.shown))
		}
	}
	if result != nil {
		r.complete = true
		return r.convert(result)
	}
	return nil
}

// shown is the progress that the host shows.
type shown Progress

// advance takes over the reported progress, as far as it is plausible.
func (s *shown) advance(sent *datamoverv1.Progress) error {
	reported := dmv1.DecodeProgress(sent)
	if err := reported.Validate(); err != nil {
		return err
	}
	s.DoneBytes = max(s.DoneBytes, reported.DoneBytes)
	s.DoneFiles = max(s.DoneFiles, reported.DoneFiles)
	s.TotalBytes = total(s.TotalBytes, reported.TotalBytes, s.DoneBytes)
	s.TotalFiles = total(s.TotalFiles, reported.TotalFiles, s.DoneFiles)
	s.Activity = reported.Activity
	return nil
}

// total returns the total to show: files that grow while they are read make it too small.
func total(shown, sent, done int64) int64 {
	if shown == 0 && sent == 0 {
		return 0
	}
	return max(shown, sent, done)
}
