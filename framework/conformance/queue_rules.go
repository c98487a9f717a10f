package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/queue"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// judge returns what is wrong with a decision on a snapshot, and whether the decision holds what it judges.
type judge func(*queueadmissionv1.DecideRequest, *queueadmissionv1.DecideResponse) (about bool, err error)

func queueRules() []Rule {
	kinds := []string{"QueueAdmission"}
	absent := func(what string) func() error {
		return func() error { return skip("no decision %s", what) }
	}
	return []Rule{
		{
			ID: "queue-decides", Kinds: kinds, Severity: Must, check: checkQueueDecides,
			Text: "Decide answers about any snapshot: with no, one or all slots free, with more running than the limit, with backups of all namespaces or of none.",
		},
		{
			ID: "queue-limit", Kinds: kinds, Severity: Must, check: judged(judgeLimit, errAdmittedNothing),
			Text: "No more backups are admitted than the limit leaves free.",
		},
		{
			ID: "queue-complete", Kinds: kinds, Severity: Must, check: judged(judgeComplete, errAdmittedNothing),
			Text: "Each queued backup is either in admit, or in order and waits (only in waits if order is empty), once. No other backup is in any of them.",
		},
		{
			ID: "queue-waits", Kinds: kinds, Severity: Must, check: judged(judgeWaits, absent("has a backup wait")),
			Text: "Each backup that waits has one reason: a word in UpperCamelCase of at most 64 letters and digits, and a message of one line with at most 1024 bytes.",
		},
		{
			ID: "queue-blockers", Kinds: kinds, Severity: Must, check: judged(judgeBlockers, absent("names a blocker or a namespace")),
			Text: "Blockers are other backups of the snapshot, and the namespaces in common are the backup's own.",
		},
		{
			ID: "queue-recheck", Kinds: kinds, Severity: Must, check: judged(judgeRecheck, absent("asks for another call")),
			Text: "recheck_after is absent, zero, or at least a second.",
		},
		{
			ID: "queue-many", Kinds: kinds, Severity: Must, check: checkQueueMany,
			Text: "A queue of 1,000 backups is decided like a short one.",
		},
		{
			ID: "queue-empty", Kinds: kinds, Severity: Must, check: checkQueueEmpty,
			Text: "An empty queue, which hosts do not send, is answered. The process does not exit.",
		},
	}
}

func queuePolicy() policy {
	return policy{
		asked: func(s *subject, config []byte) []proto.Message {
			var all []proto.Message
			for _, request := range queue.Snapshots(s.name, config, s.queues) {
				all = append(all, request)
			}
			return all
		},
		newer: func(s *subject, config []byte) proto.Message {
			request := wire.WithUnknown(queue.Snapshot(s.name, config, 3, 1, 1, 4))
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
		decide: func(ctx context.Context, s *subject, request proto.Message) (proto.Message, error) {
			asked, ok := request.(*queueadmissionv1.DecideRequest)
			if !ok {
				return nil, fmt.Errorf("%T is no snapshot", request)
			}
			return s.decide(ctx, asked)
		},
	}
}

func (s *subject) decide(ctx context.Context, request *queueadmissionv1.DecideRequest) (*queueadmissionv1.DecideResponse, error) {
	conn, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.call(ctx)
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
func (s *subject) decided(ctx context.Context) ([]decided, error) {
	decisions, err := s.firstDecisions(ctx)
	var all []decided
	for _, one := range decisions {
		request, _ := one.request.(*queueadmissionv1.DecideRequest)
		response, _ := one.answer.(*queueadmissionv1.DecideResponse)
		all = append(all, decided{request, response, one.err})
	}
	return all, err
}

// admits reports whether a policy admits a backup of any snapshot.
func admits(all []decided) bool {
	return slices.ContainsFunc(all, func(d decided) bool { return len(d.response.GetAdmit()) > 0 })
}

// errAdmittedNothing returns why a rule about admitted backups could not be checked.
func errAdmittedNothing() error {
	return skip("it admitted nothing in any snapshot; give a config or snapshots with which it does")
}

func checkQueueDecides(ctx context.Context, s *subject) error {
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

// judged returns a check of all decisions by a judge. The check calls nothing if no decision holds what is judged.
func judged(by judge, nothing func() error) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		all, err := s.decided(ctx)
		if err != nil {
			return err
		}
		seen := false
		for _, one := range all {
			switch {
			case hung(one.err):
				return fmt.Errorf("%s: %w", one, one.err)
			case one.err != nil:
				continue // another rule checks that
			}
			about, err := by(one.request, one.response)
			if err != nil {
				return fmt.Errorf("%s: %w", one, err)
			}
			seen = seen || about
		}
		if !seen {
			return nothing()
		}
		return nil
	}
}

// String describes the snapshot.
func (d decided) String() string {
	return fmt.Sprintf("at %s, with the limit %d, %d running, %d ready and %d queued", d.request.GetNow().AsTime().Format(time.RFC3339),
		d.request.GetLimit(), len(d.request.GetRunning()), len(d.request.GetReady()), len(d.request.GetQueued()))
}

func judgeLimit(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) (about bool, err error) {
	free := max(0, int(request.GetLimit())-len(request.GetRunning())-len(request.GetReady()))
	if len(decided.GetAdmit()) > free {
		return true, fmt.Errorf("it admits %d, and %d slots are free", len(decided.GetAdmit()), free)
	}
	return len(decided.GetAdmit()) > 0, nil
}

func judgeComplete(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) (about bool, err error) {
	left := map[string]bool{}
	for _, queued := range request.GetQueued() {
		left[queued.GetName()] = true
	}
	for _, name := range decided.GetAdmit() {
		if !left[name] {
			return true, fmt.Errorf("it admits %q, which is not queued or is admitted twice", name)
		}
		delete(left, name)
	}
	if len(decided.GetOrder()) == 0 {
		return len(decided.GetAdmit()) > 0, nil
	}
	for _, name := range decided.GetOrder() {
		if !left[name] {
			return true, fmt.Errorf("the order has %q, which does not wait or is there twice", name)
		}
		delete(left, name)
	}
	for name := range left {
		return true, fmt.Errorf("the order leaves out %d backups, one of them %q", len(left), name)
	}
	return len(decided.GetAdmit()) > 0, nil
}

var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

func judgeWaits(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) (about bool, err error) {
	waits := map[string]bool{}
	for _, queued := range request.GetQueued() {
		if !slices.Contains(decided.GetAdmit(), queued.GetName()) {
			waits[queued.GetName()] = true
		}
	}
	for _, wait := range decided.GetWaits() {
		if !waits[wait.GetName()] {
			return true, fmt.Errorf("it has a reason for %q, which does not wait or has another reason", wait.GetName())
		}
		delete(waits, wait.GetName())
		if !reasonWord.MatchString(wait.GetReason()) {
			return true, fmt.Errorf("the reason for %q is %.100q", wait.GetName(), wait.GetReason())
		}
		if err := checkLine("message", wait.GetMessage()); err != nil {
			return true, fmt.Errorf("the reason for %q: %w", wait.GetName(), err)
		}
	}
	for name := range waits {
		return true, fmt.Errorf("it has no reason for %q, which waits", name)
	}
	return len(decided.GetWaits()) > 0, nil
}

func judgeBlockers(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) (about bool, err error) {
	known := map[string]*queueadmissionv1.Backup{}
	for _, one := range slices.Concat(request.GetRunning(), request.GetReady(), request.GetQueued()) {
		known[one.GetName()] = one
	}
	for _, wait := range decided.GetWaits() {
		about = about || len(wait.GetBlockers())+len(wait.GetNamespaces()) > 0
		for _, blocker := range wait.GetBlockers() {
			if known[blocker] == nil || blocker == wait.GetName() {
				return true, fmt.Errorf("%q waits for %q, which is not another backup of the snapshot", wait.GetName(), blocker)
			}
		}
		self := known[wait.GetName()]
		for _, namespace := range wait.GetNamespaces() {
			if namespace == "" || !self.GetAllNamespaces() && !slices.Contains(self.GetNamespaces(), namespace) {
				return true, fmt.Errorf("%q has the namespace %q in common with others, which is not one of its own", wait.GetName(), namespace)
			}
		}
	}
	return about, nil
}

func judgeRecheck(_ *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) (about bool, err error) {
	after := decided.GetRecheckAfter()
	if after == nil {
		return false, nil
	}
	if err := after.CheckValid(); err != nil {
		return true, err
	}
	if again := after.AsDuration(); again != 0 && again < time.Second {
		return true, fmt.Errorf("it is %s", again)
	}
	return true, nil
}

func checkQueueMany(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	short, long := queue.Snapshot(s.name, config, 20, 5, 5, 20), queue.Snapshot(s.name, config, 20, 5, 5, 1000)
	usual, err := s.decide(ctx, short)
	if err != nil {
		return skip("a queue of 20 backups is not decided")
	}
	decided, err := s.decide(ctx, long)
	if err != nil {
		return err
	}
	for _, by := range []judge{judgeLimit, judgeComplete, judgeWaits, judgeBlockers} {
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

func checkQueueEmpty(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	decided, err := s.decide(ctx, queue.Snapshot(s.name, config, 3, 1, 0, 0))
	if hung(err) || panicked(err) {
		return err
	}
	if len(decided.GetAdmit()) > 0 {
		return errors.New("it admits backups that are not there")
	}
	return nil
}
