package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// judge says what is wrong with a decision on a snapshot.
type judge func(*queueadmissionv1.DecideRequest, *queueadmissionv1.DecideResponse) error

func queueRules() []Rule {
	kinds := []string{"QueueAdmission"}
	judged := func(by judge) func(context.Context, *subject) error {
		return func(ctx context.Context, s *subject) error { return s.judged(ctx, by) }
	}
	return []Rule{
		{
			ID: "queue-decides", Kinds: kinds, Severity: Must, check: judged(nil),
			Text: "A snapshot of the queue is decided, whatever it holds: none, one or all places free, more running than the limit, backups of all namespaces or of none.",
		},
		{
			ID: "queue-limit", Kinds: kinds, Severity: Must, check: judged(judgeLimit),
			Text: "No more backups are admitted than the limit leaves free.",
		},
		{
			ID: "queue-complete", Kinds: kinds, Severity: Must, check: judged(judgeComplete),
			Text: "Every queued backup stands either in admit, or in order and waits (or only waits, when order is empty), once; and no other does.",
		},
		{
			ID: "queue-waits", Kinds: kinds, Severity: Must, check: judged(judgeWaits),
			Text: "Of each backup that waits it says once why: a word in UpperCamelCase of at most 64 letters and digits, and one line of at most 1024 bytes.",
		},
		{
			ID: "queue-blockers", Kinds: kinds, Severity: Must, check: judged(judgeBlockers),
			Text: "Blockers are other backups of the snapshot, and the namespaces in common are the backup's own.",
		},
		{
			ID: "queue-recheck", Kinds: kinds, Severity: Must, check: judged(judgeRecheck),
			Text: "recheck_after is absent, zero, or at least a second.",
		},
		{
			ID: "queue-many", Kinds: kinds, Severity: Must, check: checkQueueMany,
			Text: "A queue of 1,000 backups is decided as a short one is.",
		},
		{
			ID: "queue-empty", Kinds: kinds, Severity: Must, check: checkQueueEmpty,
			Text: "An empty queue, which no host asks about, is answered. It does not end the process.",
		},
	}
}

// moment is a time before the one at which all snapshots are taken.
func moment(ago time.Duration) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-ago))
}

// backups are so many backups of a phase, each of which takes some namespaces.
func backups(phase string, count int, running bool) []*queueadmissionv1.Backup {
	var all []*queueadmissionv1.Backup
	for i := range count {
		one := &queueadmissionv1.Backup{
			Name:         fmt.Sprintf("%s-%d", phase, i),
			Namespaces:   []string{fmt.Sprintf("ns-%d", i%7), "shared"},
			ClusterScope: queueadmissionv1.ClusterScope(i%3 + 1),
			Labels:       map[string]string{"velero.io/schedule-name": fmt.Sprintf("every-%d", i%4)},
			Created:      moment(time.Duration(count-i) * time.Minute),
			Spec:         []byte(`{"storageLocation":"default","ttl":"720h0m0s"}`),
		}
		switch i % 5 {
		case 1:
			one.AllNamespaces = true
		case 2:
			one.Namespaces = nil
		}
		if running {
			one.Started = moment(time.Duration(count-i) * time.Second)
		}
		all = append(all, one)
	}
	return all
}

func (s *subject) snapshot(config []byte, limit, running, ready, queued int) *queueadmissionv1.DecideRequest {
	return &queueadmissionv1.DecideRequest{
		Plugin: s.name, Config: config, Now: moment(0), Limit: int32(limit),
		Running: backups("running", running, true), Ready: backups("ready", ready, false), Queued: backups("queued", queued, false),
	}
}

// snapshots are queues of all sorts, the usual one first.
func (s *subject) snapshots(config []byte) []*queueadmissionv1.DecideRequest {
	return []*queueadmissionv1.DecideRequest{
		s.snapshot(config, 3, 1, 1, 6),
		s.snapshot(config, 1, 0, 0, 1),
		s.snapshot(config, 1, 1, 0, 3),
		s.snapshot(config, 2, 3, 2, 3),
		s.snapshot(config, 100, 0, 0, 10),
		s.snapshot(config, 5, 0, 4, 10),
		s.snapshot(config, 4, 2, 0, 40),
	}
}

func queuePolicy() policy {
	return policy{
		asked: func(s *subject, config []byte) []proto.Message {
			var all []proto.Message
			for _, request := range s.snapshots(config) {
				all = append(all, request)
			}
			return all
		},
		newer: func(s *subject, config []byte) proto.Message {
			request := withUnknown(s.snapshot(config, 3, 1, 1, 4))
			request.Queued[0].ClusterScope = 99
			request.Queued[1].ClusterScope = queueadmissionv1.ClusterScope_CLUSTER_SCOPE_UNSPECIFIED
			withUnknown(request.Queued[2])
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

// judged has the decisions on all snapshots judged; without a judge there has to be one on each.
func (s *subject) judged(ctx context.Context, by judge) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	for _, request := range s.snapshots(config) {
		decided, err := s.decide(ctx, request)
		switch {
		case err == nil && by != nil:
			err = by(request, decided)
		case !hung(err) && by != nil:
			err = nil // which is another rule
		}
		if err != nil {
			return fmt.Errorf("with the limit %d, %d running, %d ready and %d queued: %w",
				request.GetLimit(), len(request.GetRunning()), len(request.GetReady()), len(request.GetQueued()), err)
		}
	}
	return nil
}

func judgeLimit(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) error {
	free := max(0, int(request.GetLimit())-len(request.GetRunning())-len(request.GetReady()))
	if len(decided.GetAdmit()) > free {
		return fmt.Errorf("it admits %d, and %d places are free", len(decided.GetAdmit()), free)
	}
	return nil
}

func judgeComplete(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) error {
	left := map[string]bool{}
	for _, queued := range request.GetQueued() {
		left[queued.GetName()] = true
	}
	for _, name := range decided.GetAdmit() {
		if !left[name] {
			return fmt.Errorf("it admits %q, which is not queued, or twice", name)
		}
		delete(left, name)
	}
	if len(decided.GetOrder()) == 0 {
		return nil
	}
	for _, name := range decided.GetOrder() {
		if !left[name] {
			return fmt.Errorf("it orders %q, which does not wait, or twice", name)
		}
		delete(left, name)
	}
	for name := range left {
		return fmt.Errorf("it leaves %d out of the order, %q among them", len(left), name)
	}
	return nil
}

var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

func judgeWaits(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) error {
	waits := map[string]bool{}
	for _, queued := range request.GetQueued() {
		if !slices.Contains(decided.GetAdmit(), queued.GetName()) {
			waits[queued.GetName()] = true
		}
	}
	for _, wait := range decided.GetWaits() {
		if !waits[wait.GetName()] {
			return fmt.Errorf("it says why %q waits, which does not, or twice", wait.GetName())
		}
		delete(waits, wait.GetName())
		if !reasonWord.MatchString(wait.GetReason()) {
			return fmt.Errorf("the reason why %q waits is %.100q", wait.GetName(), wait.GetReason())
		}
		if err := checkLine("message", wait.GetMessage()); err != nil {
			return fmt.Errorf("why %q waits: %w", wait.GetName(), err)
		}
	}
	for name := range waits {
		return fmt.Errorf("it does not say why %q waits", name)
	}
	return nil
}

func judgeBlockers(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) error {
	known := map[string]*queueadmissionv1.Backup{}
	for _, one := range slices.Concat(request.GetRunning(), request.GetReady(), request.GetQueued()) {
		known[one.GetName()] = one
	}
	for _, wait := range decided.GetWaits() {
		for _, blocker := range wait.GetBlockers() {
			if known[blocker] == nil || blocker == wait.GetName() {
				return fmt.Errorf("%q waits for %q, which is no other backup of the snapshot", wait.GetName(), blocker)
			}
		}
		self := known[wait.GetName()]
		for _, namespace := range wait.GetNamespaces() {
			if namespace == "" || !self.GetAllNamespaces() && !slices.Contains(self.GetNamespaces(), namespace) {
				return fmt.Errorf("%q is said to have the namespace %q in common, which is none of its own", wait.GetName(), namespace)
			}
		}
	}
	return nil
}

func judgeRecheck(_ *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) error {
	after := decided.GetRecheckAfter()
	if after == nil {
		return nil
	}
	if err := after.CheckValid(); err != nil {
		return err
	}
	if again := after.AsDuration(); again != 0 && again < time.Second {
		return fmt.Errorf("it is %s", again)
	}
	return nil
}

func checkQueueMany(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	short, long := s.snapshot(config, 20, 5, 5, 20), s.snapshot(config, 20, 5, 5, 1000)
	usual, err := s.decide(ctx, short)
	if err != nil {
		return skip("a queue of 20 backups is not decided")
	}
	decided, err := s.decide(ctx, long)
	if err != nil {
		return err
	}
	for _, by := range []judge{judgeLimit, judgeComplete, judgeWaits, judgeBlockers} {
		if by(short, usual) != nil {
			continue // which is another rule
		}
		if err := by(long, decided); err != nil {
			return err
		}
	}
	return nil
}

func checkQueueEmpty(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	decided, err := s.decide(ctx, s.snapshot(config, 3, 1, 0, 0))
	if hung(err) || panicked(err) {
		return err
	}
	if len(decided.GetAdmit()) > 0 {
		return errors.New("it admits backups that are not there")
	}
	return nil
}
