package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// policy is a policy that rules are checked on.
type policy struct{ *suite.Subject }

// with adapts a check of a policy.
func with(check func(context.Context, *policy) error) suite.Check {
	return func(ctx context.Context, s *suite.Subject) error { return check(ctx, &policy{s}) }
}

// Work returns a call that makes a decision, or nil if the policy has no config.
func Work(s *suite.Subject) func(context.Context) error {
	one := &policy{s}
	config, err := one.config()
	if err != nil {
		return nil
	}
	return func(ctx context.Context) error {
		_, err := one.usual(ctx, config)
		return err
	}
}

// calls describes how one kind of policy is called.
type calls struct {
	// asked returns requests of all sorts with a config. The first is the usual one.
	asked func(s *policy, config []byte) []proto.Message
	// newer returns the usual request as a newer host sends it.
	newer func(s *policy, config []byte) proto.Message
	// moved returns a request in which everything happens d later. It is nil if the requests of the kind have no time.
	moved func(request proto.Message, d time.Duration) proto.Message
	// decide sends a request and returns the answer.
	decide func(ctx context.Context, s *policy, request proto.Message) (proto.Message, error)
}

func allCalls() map[string]calls {
	return map[string]calls{
		qav1.Kind().Wire: queuePolicy(), lsv1.Kind().Wire: soothingPolicy(), mwv1.Kind().Wire: manifestPolicy(),
	}
}

func (s *policy) calls() calls { return allCalls()[s.Kind] }

// config returns the config for the policy: the caller's, or an empty one if the schema allows that.
func (s *policy) config() ([]byte, error) {
	config, given, err := s.PolicyConfig()
	if err != nil {
		return nil, suite.Skip("%v", err)
	}
	if err := suite.FitsSchema(s.Schema, config); err != nil {
		if !given {
			return nil, suite.Skip("its schema requires a config, and none is given")
		}
		return nil, suite.Skip("the config is not valid by its schema")
	}
	return config, nil
}

// ready returns the config of the policy. It skips a rule if the policy is not served or has no config.
func (s *policy) ready(ctx context.Context) ([]byte, error) {
	if err := s.NeedsService(ctx); err != nil {
		return nil, err
	}
	return s.config()
}

// usual sends the usual request.
func (s *policy) usual(ctx context.Context, config []byte) (proto.Message, error) {
	return s.calls().decide(ctx, s, s.calls().asked(s, config)[0])
}

// decision is a request to a policy and its answer.
type decision struct {
	request, answer proto.Message
	err             error
}

// errNotAsked marks a request that was not made, because an earlier one hung.
var errNotAsked = errors.New("not asked")

// firstDecisions returns the answers to requests of all sorts, which it asks once.
func (s *policy) firstDecisions(ctx context.Context) ([]decision, error) {
	config, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return suite.Remembered(s.Subject, "decisions", func() []decision {
		var all []decision
		for _, request := range s.calls().asked(s, config) {
			all = append(all, decision{request: request, err: errNotAsked})
		}
		_ = s.Each(ctx, len(all), func(ctx context.Context, i int) error {
			all[i].answer, all[i].err = s.calls().decide(ctx, s, all[i].request)
			if suite.Hung(all[i].err) {
				return all[i].err // the others would hang as well
			}
			return nil
		})
		return slices.DeleteFunc(all, func(one decision) bool { return one.err == errNotAsked })
	}), nil
}

// rightDecisions returns the first decisions. It skips a rule if one of them is an error.
func (s *policy) rightDecisions(ctx context.Context) ([]decision, error) {
	all, err := s.firstDecisions(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.err != nil {
			return nil, suite.Skip("it answers an error: %v", one.err)
		}
	}
	return all, nil
}

// sameAgain asks the requests of decisions again and compares the answers. when describes the circumstances for the
// error.
func (s *policy) sameAgain(ctx context.Context, all []decision, when string) error {
	return s.Each(ctx, len(all), func(ctx context.Context, i int) error {
		one := all[i]
		again, err := s.calls().decide(ctx, s, one.request)
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		if !proto.Equal(one.answer, again) {
			return fmt.Errorf("first it decides %v, and %s %v", suite.Clip(fmt.Sprint(one.answer)), when,
				suite.Clip(fmt.Sprint(again)))
		}
		return nil
	})
}
