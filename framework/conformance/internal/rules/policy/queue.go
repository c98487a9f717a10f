package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/queue"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

func queueRules() []suite.Rule {
	kinds := []string{qav1.Kind().Wire}
	absent := func(what string) func() error {
		return func() error { return suite.Skip("no decision %s", what) }
	}
	return []suite.Rule{
		{
			ID: "queue-decides", Kinds: kinds, Check: with(checkQueueDecides),
			Text: "Decide answers about any snapshot: with no, one or all slots free, with more running than the limit, with " +
				"backups of all namespaces or of none.",
		},
		{
			ID: "queue-limit", Kinds: kinds, Check: with(judged(judgeLimit(), errAdmittedNothing)),
			Text: "No more backups are admitted than the limit leaves free.",
		},
		{
			ID: "queue-complete", Kinds: kinds, Check: with(judged(judgeComplete(), errAdmittedNothing)),
			Text: "Each queued backup is either in admit, or in order and waits (only in waits if order is empty), once. No " +
				"other backup is in any of them.",
		},
		{
			ID: "queue-waits", Kinds: kinds, Check: with(judged(judgeWaits(), absent("has a backup wait"))),
			Text: "Each backup that waits has one reason: a word in UpperCamelCase of at most 64 letters and digits, and a " +
				"message of one line with at most 1024 bytes.",
		},
		{
			ID: "queue-blockers", Kinds: kinds, Check: with(judged(judgeBlockers(), absent("names a blocker or a namespace"))),
			Text: "Blockers are other backups or restores of the snapshot, and the namespaces in common are the backup's own.",
		},
		{
			ID: "queue-recheck", Kinds: kinds, Check: with(judged(judgeRecheck, absent("asks for another call"))),
			Text: "recheck_after is absent, zero, or at least a second.",
		},
		{
			ID: "queue-many", Kinds: kinds, Check: with(checkQueueMany),
			Text: "A queue of 1,000 backups is decided like a short one.",
		},
		{
			ID: "queue-empty", Kinds: kinds, Check: with(checkQueueEmpty),
			Text: "An empty queue, which hosts do not send, is answered. The process does not exit.",
		},
	}
}

func queuePolicy() calls {
	return calls{
		asked: func(s *policy, config []byte) []proto.Message {
			var all []proto.Message
			for _, request := range queue.Snapshots(s.Name, config, s.Queues) {
				all = append(all, request)
			}
			return all
		},
		newer: func(s *policy, config []byte) proto.Message {
			request := wire.WithUnknown(queue.Snapshot(s.Name, config, 3, 1, 1, 4))
			request.Queued[0].ClusterScope = 99
			request.Queued[1].ClusterScope = queueadmissionv1.ClusterScope_CLUSTER_SCOPE_UNSPECIFIED
			wire.WithUnknown(request.Queued[2])
			return request
		},
		moved: func(request proto.Message, d time.Duration) proto.Message {
			if asked, ok := request.(*queueadmissionv1.DecideRequest); ok {
				return queue.Moved(asked, d)
			}
			return request
		},
		decide: func(ctx context.Context, s *policy, request proto.Message) (proto.Message, error) {
			asked, ok := request.(*queueadmissionv1.DecideRequest)
			if !ok {
				return nil, fmt.Errorf("%T is not a snapshot", request)
			}
			return s.decide(ctx, asked)
		},
	}
}

func (s *policy) decide(
	ctx context.Context, request *queueadmissionv1.DecideRequest,
) (*queueadmissionv1.DecideResponse, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	return queueadmissionv1.NewQueueAdmissionServiceClient(conn).Decide(ctx, request)
}

// decided is a snapshot and the decision on it.
type decided struct {
	request  *queueadmissionv1.DecideRequest
	response *queueadmissionv1.DecideResponse
	err      error
}

// decided returns the decisions on all snapshots.
func (s *policy) decided(ctx context.Context) ([]decided, error) {
	decisions, err := s.firstDecisions(ctx)
	var all []decided
	for _, one := range decisions {
		request, _ := one.request.(*queueadmissionv1.DecideRequest)
		response, _ := one.answer.(*queueadmissionv1.DecideResponse)
		all = append(all, decided{request, response, one.err})
	}
	return all, err
}

// String describes the snapshot.
func (d decided) String() string {
	return fmt.Sprintf("at %s, with the limit %d, %d running, %d ready, %d queued, %d operating and %d restoring",
		d.request.GetNow().AsTime().Format(time.RFC3339),
		d.request.GetLimit(), len(d.request.GetRunning()), len(d.request.GetReady()), len(d.request.GetQueued()),
		len(d.request.GetOperating()), len(d.request.GetRestoring()))
}

// admits reports whether a policy admits a backup of any snapshot.
func admits(all []decided) bool {
	return slices.ContainsFunc(all, func(d decided) bool { return len(d.response.GetAdmit()) > 0 })
}

// errAdmittedNothing returns why a rule about admitted backups could not be checked.
func errAdmittedNothing() error {
	return suite.Skip("it admitted nothing in any snapshot; give a config or snapshots with which it does")
}

func checkQueueDecides(ctx context.Context, s *policy) error {
	all, err := s.decided(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.err != nil {
			return fmt.Errorf("%s: %w", one, one.err)
		}
	}
	return nil
}

func checkQueueMany(ctx context.Context, s *policy) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	short, long := queue.Snapshot(s.Name, config, 20, 5, 5, 20), queue.Snapshot(s.Name, config, 20, 5, 5, 1000)
	usual, err := s.decide(ctx, short)
	if err != nil {
		return suite.Skip("a queue of 20 backups is not decided")
	}
	decided, err := s.decide(ctx, long)
	if err != nil {
		return err
	}
	for _, by := range []judge{judgeLimit(), judgeComplete(), judgeWaits(), judgeBlockers()} {
		if _, err := by(short, usual); err != nil {
			continue // another rule checks that
		}
		if _, err := by(long, decided); err != nil {
			return err
		}
	}
	if len(usual.GetAdmit())+len(decided.GetAdmit()) > 0 {
		return nil
	}
	if all, err := s.decided(ctx); err == nil && !admits(all) {
		return errAdmittedNothing()
	}
	return nil
}

func checkQueueEmpty(ctx context.Context, s *policy) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	decided, err := s.decide(ctx, queue.Snapshot(s.Name, config, 3, 1, 0, 0))
	if suite.Hung(err) || suite.Panicked(err) {
		return err
	}
	if len(decided.GetAdmit()) > 0 {
		return errors.New("it admits backups that are not there")
	}
	return nil
}
