package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func operationRules() []Rule {
	starting := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Progress != nil })
	keyed := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Keyed })
	waiting := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Ready != nil })
	return []Rule{
		{
			ID: "operation-id", Kinds: starting, Severity: Must, check: checkOperationID,
			Text: "An operation's id has at most 1024 bytes, no control characters and is not blank. It is empty if nothing was started.",
		},
		{
			ID: "operation-items", Severity: Should, check: checkOperationItems,
			Kinds: []string{"BackupItemActionV2", "AsyncBackupItemAction"},
			Text:  "Post-operation items come with an operation, because they are backed up when it has completed.",
		},
		{
			ID: "operation-progress", Kinds: starting, Severity: Must, check: checkProgress,
			Text: "Progress of an operation answers a progress whose counts are not negative and whose times are valid.",
		},
		{
			ID: "operation-progress-sane", Kinds: starting, Severity: Should, check: checkProgressSane,
			Text: "A progress is consistent: no more is done than the total, an error comes with completed, and the operation was not updated before it started.",
		},
		{
			ID: "operation-completed-stays", Kinds: starting, Severity: Must, check: checkCompletedStays,
			Text: "An operation that has completed stays completed.",
		},
		{
			ID: "operation-cancel", Kinds: starting, Severity: Must, check: checkCancel,
			Text: "Cancel of an operation is not an error, neither the first nor the second time, nor after its end. Progress still answers after it.",
		},
		{
			ID: "operation-cancel-ends", Kinds: starting, Severity: Must, check: checkCancelEnds,
			Text: fmt.Sprintf("A cancelled operation ends: Progress says completed within %s of a Cancel without an error.", process.Patience),
		},
		{
			ID: "operation-own", Kinds: starting, Severity: Must, check: checkOwnOperation,
			Text: "The same item has an operation of its own in each Backup or Restore. Cancelling that of one does not end that of another.",
		},
		{
			ID: "operation-progress-forward", Kinds: starting, Severity: Should, check: checkForward,
			Text: "Progress does not go back: neither the count, in the same units, nor the time of the last update. The start time does not change.",
		},
		{
			ID: "operation-unknown", Kinds: starting, Severity: Should, check: checkUnknownProgress,
			Text: "Progress of an operation that was never started is an error. A host that gets a progress waits for the operation.",
		},
		{
			ID: "operation-unknown-harmless", Kinds: starting, Severity: Must, check: checkUnknownHarmless,
			Text: "Progress and Cancel answer for an operation that was never started and for an empty ID, with an error or without. They do not panic, and the process does not exit.",
		},
		{
			ID: "operation-restart", Kinds: starting, Severity: Must, check: checkOperationRestart,
			Text: "An operation survives its process: after a kill -9 the next process answers its Progress.",
		},
		{
			ID: "start-again", Kinds: keyed, Severity: Must, check: checkStartAgain,
			Text: "A second Start with the same key answers the operation of the first one, and starts no other.",
		},
		{
			ID: "start-again-restart", Kinds: keyed, Severity: Must, check: checkStartAgainRestart,
			Text: "A second Start with the same key answers the operation of the first one also when the process was killed in between.",
		},
		{
			ID: "start-other", Kinds: keyed, Severity: Should, check: checkStartOther,
			Text: "Another key, for another item, starts another operation.",
		},
		{
			ID: "delete-again", Kinds: []string{"DeleteItemAction"}, Severity: Must, check: checkDeleteAgain,
			Text: "A second deletion of the same item is not an error, because an interrupted deletion is repeated from the start.",
		},
		{
			ID: "ready-timeout", Kinds: waiting, Severity: Must, check: checkReadyTimeout,
			Text: "additionalItemsReadyTimeout is absent, or a duration that is not negative.",
		},
		{
			ID: "ready-answers", Kinds: waiting, Severity: Must, check: checkReady,
			Text: "AreAdditionalItemsReady answers about the additional items and about none, with an error or without. It does not panic, and the process does not exit.",
		},
	}
}

// operation returns an exchange that has started an operation.
func (s *subject) operation(ctx context.Context) (exchange, error) {
	all, err := s.answered(ctx)
	if err != nil {
		return exchange{}, err
	}
	for _, one := range all {
		if one.answer.Operation != "" {
			return one, nil
		}
	}
	return exchange{}, skip("it starts no operation for the sample items")
}

func checkOperationID(ctx context.Context, s *subject) error {
	all, err := s.answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		switch id := one.answer.Operation; {
		case len(id) > 1024:
			return fmt.Errorf("asked about %s: the id has %d bytes", one.sample, len(id))
		case strings.ContainsFunc(id, unicode.IsControl):
			return fmt.Errorf("asked about %s: the id %q has control characters", one.sample, id)
		case id != "" && strings.TrimSpace(id) == "":
			return fmt.Errorf("asked about %s: the id %q is blank", one.sample, id)
		}
	}
	return nil
}

func checkOperationItems(ctx context.Context, s *subject) error {
	all, err := s.answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if len(one.answer.After) > 0 && one.answer.Operation == "" {
			return fmt.Errorf("asked about %s: post-operation items %v and no operation", one.sample, one.answer.After)
		}
	}
	return nil
}

// progressOf calls Progress.
func (s *subject) progressOf(ctx context.Context, id string, owner []byte) (*shared.OperationProgress, error) {
	conn, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	return s.action().Progress(ctx, conn, s.name, id, owner)
}

// cancel calls Cancel. It returns whether the plugin says that the operation is going to end.
func (s *subject) cancel(ctx context.Context, id string, owner []byte) (bool, error) {
	conn, err := s.conn(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	return s.action().Cancel(ctx, conn, s.name, id, owner)
}

// following holds consecutive answers of Progress.
type following struct {
	progress []*shared.OperationProgress
	took     time.Duration // from the first call to the completion; 0 if the operation has not completed
	err      error
}

// followed returns the answers of Progress for an operation until it has completed, and some after that, or until the time is over.
func (s *subject) followed(ctx context.Context) (exchange, following, error) {
	one, err := s.operation(ctx)
	if err != nil {
		return one, following{}, err
	}
	all := remembered(s, "followed", func() following {
		var all following
		began := time.Now()
		for deadline, after := time.Now().Add(s.operationWait), 0; after < 3 && (time.Now().Before(deadline) || len(all.progress) < 3 || after > 0); {
			progress, err := s.progressOf(ctx, one.answer.Operation, one.question.Owner)
			if err != nil {
				all.err = fmt.Errorf("progress of the operation %q on %s: %w", one.answer.Operation, one.sample, err)
				break
			}
			all.progress = append(all.progress, progress)
			if after > 0 || progress.GetCompleted() {
				if after == 0 {
					all.took = time.Since(began)
				}
				after++
				continue
			}
			select {
			case <-ctx.Done():
				all.err = ctx.Err()
				return all
			case <-time.After(50 * time.Millisecond):
			}
		}
		return all
	})
	return one, all, nil
}

func checkProgress(ctx context.Context, s *subject) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil {
		return all.err
	}
	for _, progress := range all.progress {
		if progress == nil {
			return errors.New("there is no progress in the answer")
		}
		if progress.GetNCompleted() < 0 || progress.GetNTotal() < 0 {
			return fmt.Errorf("%d of %d are done", progress.GetNCompleted(), progress.GetNTotal())
		}
		for field, at := range map[string]*timestamppb.Timestamp{"started": progress.GetStarted(), "updated": progress.GetUpdated()} {
			if err := at.CheckValid(); at != nil && err != nil {
				return fmt.Errorf("%s is not a valid time: %w", field, err)
			}
		}
	}
	return nil
}

func checkProgressSane(ctx context.Context, s *subject) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil || len(all.progress) == 0 {
		return skip("Progress does not answer")
	}
	for _, progress := range all.progress {
		switch started, updated := progress.GetStarted(), progress.GetUpdated(); {
		case progress.GetNTotal() > 0 && progress.GetNCompleted() > progress.GetNTotal():
			return fmt.Errorf("%d of %d are done", progress.GetNCompleted(), progress.GetNTotal())
		case progress.GetErr() != "" && !progress.GetCompleted():
			return fmt.Errorf("the error is %q, and it is not completed", progress.GetErr())
		case isBefore(updated, started):
			return fmt.Errorf("it was updated at %s and began at %s", updated.AsTime(), started.AsTime())
		}
	}
	return nil
}

func checkCompletedStays(ctx context.Context, s *subject) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil {
		return skip("Progress does not answer")
	}
	completed := 0
	for _, progress := range all.progress {
		switch {
		case progress.GetCompleted():
			completed++
		case completed > 0:
			return errors.New("it was completed, and then it was not")
		}
	}
	if completed == 0 {
		return skip("the operation did not complete within %s", s.operationWait)
	}
	return nil
}

func checkCancel(ctx context.Context, s *subject) error {
	one, _, err := s.followed(ctx)
	if err != nil {
		return err
	}
	for _, which := range []string{"first", "second"} {
		if _, err := s.cancel(ctx, one.answer.Operation, one.question.Owner); err != nil {
			return fmt.Errorf("the %s Cancel of the operation %q: %w", which, one.answer.Operation, err)
		}
	}
	if _, err := s.progressOf(ctx, one.answer.Operation, one.question.Owner); err != nil {
		return fmt.Errorf("progress after Cancel: %w", err)
	}
	return nil
}

// neverStarted is an ID that no operation has.
const neverStarted = "conformance-never-started-5d5b6c7e"

func checkUnknownProgress(ctx context.Context, s *subject) error {
	if err := s.needsService(ctx); err != nil {
		return err
	}
	if _, err := s.operation(ctx); err != nil {
		return err
	}
	if progress, err := s.progressOf(ctx, neverStarted, sample.Encode(s.owner(usualOwner))); err == nil {
		return fmt.Errorf("the progress of the operation %q is %v", neverStarted, progress)
	}
	return nil
}

func checkUnknownHarmless(ctx context.Context, s *subject) error {
	if err := s.needsService(ctx); err != nil {
		return err
	}
	for _, id := range []string{neverStarted, "", "../../etc/passwd", strings.Repeat("x", 100_000)} {
		_, progressErr := s.progressOf(ctx, id, sample.Encode(s.owner(usualOwner)))
		_, cancelErr := s.cancel(ctx, id, sample.Encode(s.owner(usualOwner)))
		for call, err := range map[string]error{"Progress": progressErr, "Cancel": cancelErr} {
			if hung(err) || panicked(err) {
				return fmt.Errorf("%s of %.40q: %w", call, id, err)
			}
		}
	}
	return nil
}

func checkOperationRestart(ctx context.Context, s *subject) error {
	one, _, err := s.followed(ctx)
	if err != nil {
		return err
	}
	s.host.stop()
	if _, err := s.progressOf(ctx, one.answer.Operation, one.question.Owner); err != nil {
		return fmt.Errorf("progress of the operation %q, which the process before has started: %w", one.answer.Operation, err)
	}
	return nil
}

func checkStartAgain(ctx context.Context, s *subject) error {
	return s.startsAgain(ctx, func() {})
}

// startsAgain starts an operation twice and calls between in the meantime.
func (s *subject) startsAgain(ctx context.Context, between func()) error {
	one, err := s.operation(ctx)
	if err != nil {
		return err
	}
	first, err := s.execute(ctx, one.question)
	if err != nil {
		return fmt.Errorf("the second Start of %s: %w", one.sample, err)
	}
	between()
	again, err := s.execute(ctx, one.question)
	if err != nil {
		return fmt.Errorf("the second Start of %s: %w", one.sample, err)
	}
	if again.Operation != first.Operation {
		return fmt.Errorf("a Start of %s with the key %q answered the operation %q, the next one %q",
			one.sample, one.question.Key, first.Operation, again.Operation)
	}
	return nil
}

func checkStartAgainRestart(ctx context.Context, s *subject) error {
	if checkStartAgain(ctx, s) != nil {
		return skip("it does not keep keys at all")
	}
	return s.startsAgain(ctx, s.host.stop)
}

func checkStartOther(ctx context.Context, s *subject) error {
	one, err := s.operation(ctx)
	if err != nil {
		return err
	}
	q := s.question(one.sample.With(func(item *unstructured.Unstructured) { item.SetName("other") }))
	other, err := s.execute(ctx, q)
	if err != nil {
		return skip("another item of the kind gets an error: %v", err)
	}
	if other.Operation == one.answer.Operation {
		return fmt.Errorf("the keys %q and %q have the same operation %q", one.question.Key, q.Key, other.Operation)
	}
	return nil
}

func checkDeleteAgain(ctx context.Context, s *subject) error {
	all, err := s.answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if _, err := s.execute(ctx, one.question); err != nil {
			return fmt.Errorf("the second Execute of %s: %w", one.sample, err)
		}
	}
	return nil
}

func checkReadyTimeout(ctx context.Context, s *subject) error {
	all, err := s.answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		timeout := one.answer.Timeout
		if timeout == nil {
			continue
		}
		if err := timeout.CheckValid(); err != nil {
			return fmt.Errorf("asked about %s: %w", one.sample, err)
		}
		if timeout.AsDuration() < 0 {
			return fmt.Errorf("asked about %s: it is %s", one.sample, timeout.AsDuration())
		}
	}
	return nil
}

func checkReady(ctx context.Context, s *subject) error {
	if err := s.needsService(ctx); err != nil {
		return err
	}
	asked := []*shared.ResourceIdentifier{{Resource: "configmaps", Namespace: "conformance", Name: "sample"}}
	if all, err := s.answered(ctx); err == nil && len(all[0].answer.Additional) > 0 {
		asked = all[0].answer.Additional
	}
	for _, items := range [][]*shared.ResourceIdentifier{asked, nil} {
		conn, err := s.conn(ctx)
		if err != nil {
			return err
		}
		err = s.isReady(ctx, conn, items)
		if hung(err) || panicked(err) || status.Code(err) == codes.Unimplemented {
			return fmt.Errorf("asked about %d items: %w", len(items), err)
		}
	}
	return nil
}

func (s *subject) isReady(ctx context.Context, conn *grpc.ClientConn, items []*shared.ResourceIdentifier) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	return s.action().Ready(ctx, conn, s.name, items, sample.Encode(s.owner(usualOwner)))
}

// isBefore reports whether both are times, and a is before b.
func isBefore(a, b *timestamppb.Timestamp) bool {
	return a.IsValid() && b.IsValid() && a.AsTime().Before(b.AsTime())
}
