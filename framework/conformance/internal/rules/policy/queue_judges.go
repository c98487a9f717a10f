package policy

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// judge returns what is wrong with a decision on a snapshot, and whether the decision holds what it judges.
type judge func(*queueadmissionv1.DecideRequest, *queueadmissionv1.DecideResponse) (about bool, err error)

// judged returns a check of all decisions by a judge. The check calls nothing if no decision holds what is judged.
func judged(by judge, nothing func() error) func(context.Context, *policy) error {
	return func(ctx context.Context, s *policy) error {
		all, err := s.decided(ctx)
		if err != nil {
			return err
		}
		seen := false
		for _, one := range all {
			switch {
			case suite.Hung(one.err):
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

func judgeLimit(
	request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse,
) (about bool, err error) {
	free := max(0, int(request.GetLimit())-len(request.GetRunning())-len(request.GetReady()))
	if len(decided.GetAdmit()) > free {
		return true, fmt.Errorf("it admits %d, and %d slots are free", len(decided.GetAdmit()), free)
	}
	return len(decided.GetAdmit()) > 0, nil
}

func judgeComplete(
	request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse,
) (about bool, err error) {
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

func judgeWaits(
	request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse,
) (about bool, err error) {
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
		if err := suite.CheckLine("message", wait.GetMessage()); err != nil {
			return true, fmt.Errorf("the reason for %q: %w", wait.GetName(), err)
		}
	}
	for name := range waits {
		return true, fmt.Errorf("it has no reason for %q, which waits", name)
	}
	return len(decided.GetWaits()) > 0, nil
}

func judgeBlockers(
	request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse,
) (about bool, err error) {
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
				return true, fmt.Errorf("%q has the namespace %q in common with others, which is not one of its own",
					wait.GetName(), namespace)
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
