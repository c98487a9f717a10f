package policy

import (
	"context"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
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

// judgedBy returns a judge that applies a rule of the kind to decisions. about reports whether a decision holds what
// the rule is about.
func judgedBy(
	rule func(*qav1.DecideOutput, *qav1.DecideInput) error, about func(*queueadmissionv1.DecideResponse) bool,
) judge {
	return func(request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse) (bool, error) {
		output, _ := qav1.DecodeOutput(decided) // judgeRecheck has the error
		return about(decided), rule(output, qav1.DecodeInput(request))
	}
}

func judgeLimit() judge { return judgedBy((*qav1.DecideOutput).ValidateLimit, admitsAny) }

func judgeComplete() judge { return judgedBy((*qav1.DecideOutput).ValidateComplete, admitsAny) }

func judgeWaits() judge {
	return judgedBy((*qav1.DecideOutput).ValidateWaits, func(decided *queueadmissionv1.DecideResponse) bool {
		return len(decided.GetWaits()) > 0
	})
}

func judgeBlockers() judge {
	return judgedBy((*qav1.DecideOutput).ValidateBlockers, func(decided *queueadmissionv1.DecideResponse) bool {
		return slices.ContainsFunc(decided.GetWaits(), func(wait *queueadmissionv1.Wait) bool {
			return len(wait.GetBlockers())+len(wait.GetNamespaces()) > 0
		})
	})
}

func judgeRecheck(
	request *queueadmissionv1.DecideRequest, decided *queueadmissionv1.DecideResponse,
) (about bool, err error) {
	output, err := qav1.DecodeOutput(decided)
	if err != nil {
		return true, err
	}
	return decided.GetRecheckAfter() != nil, output.ValidateRecheck(qav1.DecodeInput(request))
}

func admitsAny(decided *queueadmissionv1.DecideResponse) bool { return len(decided.GetAdmit()) > 0 }
