package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

func policyRules() []Rule {
	every := []string{"QueueAdmission", "LoadSoothing", "ManifestWriter"}
	pure := []string{"QueueAdmission", "LoadSoothing"}
	return []Rule{
		{
			ID: "policy-config", Kinds: every, Severity: Must, check: checkPolicyConfig,
			Text: "The given config is valid by the schema that the plugin announces, and the plugin accepts it.",
		},
		{
			ID: "policy-config-empty", Kinds: every, Severity: Must, check: checkPolicyConfigEmpty,
			Text: "A plugin whose schema allows an empty object decides with one, and without a config. Any other returns an error.",
		},
		{
			ID: "policy-config-garbage", Kinds: every, Severity: Must, check: checkPolicyConfigGarbage,
			Text: "A request whose config is not a JSON object is answered, with an error or without. The process does not exit.",
		},
		{
			ID: "policy-wire-unknown", Kinds: every, Severity: Must, check: checkPolicyUnknown,
			Text: "A request may have fields and values of enumerations that the plugin does not know.",
		},
		{
			ID: "policy-pure", Kinds: pure, Severity: Must, check: checkPure,
			Text: "The same request has the same answer, whatever was asked before, also in another process.",
		},
		{
			ID: "policy-clock", Kinds: pure, Severity: Must, check: checkClock,
			Text: "A policy knows the time from its request alone: whatever the clock and the time zone of its machine say, " +
				"snapshots with the same ages, times of day, weekdays and dates have the same decision.",
		},
		{
			ID: "policy-concurrent", Kinds: pure, Severity: Must, check: checkPolicyConcurrent,
			Text: "32 concurrent calls have the same answers as sequential ones.",
		},
	}
}

// policy describes how one kind of policy is called.
type policy struct {
	// asked returns requests of all sorts with a config. The first is the usual one.
	asked func(s *subject, config []byte) []proto.Message
	// newer returns the usual request as a newer host sends it.
	newer func(s *subject, config []byte) proto.Message
	// moved returns a request in which everything happens d later. It is nil if the requests of the kind have no time.
	moved func(request proto.Message, d time.Duration) proto.Message
	// decide sends a request and returns the answer.
	decide func(ctx context.Context, s *subject, request proto.Message) (proto.Message, error)
}

func policies() map[string]policy {
	return map[string]policy{
		"QueueAdmission": queuePolicy(), "LoadSoothing": soothingPolicy(), "ManifestWriter": manifestPolicy(),
	}
}

func (s *subject) policy() policy { return policies()[s.kind] }

// config returns the config for the policy: the caller's, or an empty one if the schema allows that.
func (s *subject) config() ([]byte, error) {
	config, given, err := s.policyConfig(s.name)
	if err != nil {
		return nil, skip("%v", err)
	}
	if err := fitsSchema(s.schema, config); err != nil {
		if !given {
			return nil, skip("its schema requires a config, and none is given")
		}
		return nil, skip("the config is not valid by its schema")
	}
	return config, nil
}

// ready returns the config of the policy. It skips a rule if the policy is not served or has no config.
func (s *subject) ready(ctx context.Context) ([]byte, error) {
	if err := s.needsService(ctx); err != nil {
		return nil, err
	}
	return s.config()
}

// usual sends the usual request.
func (s *subject) usual(ctx context.Context, config []byte) (proto.Message, error) {
	return s.policy().decide(ctx, s, s.policy().asked(s, config)[0])
}

func checkPolicyConfig(ctx context.Context, s *subject) error {
	if err := s.needsService(ctx); err != nil {
		return err
	}
	config, given, err := s.policyConfig(s.name)
	if err != nil {
		return err
	}
	if !given {
		return skip("it has no config")
	}
	if err := fitsSchema(s.schema, config); err != nil {
		return fmt.Errorf("the config %s: %w", config, err)
	}
	if _, err := s.usual(ctx, config); err != nil {
		return fmt.Errorf("asked with the config %s: %w", config, err)
	}
	return nil
}

func checkPolicyConfigEmpty(ctx context.Context, s *subject) error {
	if err := s.needsService(ctx); err != nil {
		return err
	}
	takes := fitsSchema(s.schema, []byte("{}")) == nil
	for what, config := range map[string][]byte{"the config {}": []byte("{}"), "no config": nil} {
		_, err := s.usual(ctx, config)
		switch {
		case hung(err) || panicked(err):
			return fmt.Errorf("asked with %s: %w", what, err)
		case takes && err != nil:
			return fmt.Errorf("its schema takes an empty object; asked with %s: %w", what, err)
		case !takes && err == nil:
			return fmt.Errorf("its schema does not take an empty object, and it decides with %s", what)
		}
	}
	return nil
}

func checkPolicyConfigGarbage(ctx context.Context, s *subject) error {
	if err := s.needsService(ctx); err != nil {
		return err
	}
	for _, config := range []string{"\x00\xff", "[]", "null", `"text"`, `{"a":`} {
		if _, err := s.usual(ctx, []byte(config)); hung(err) || panicked(err) {
			return fmt.Errorf("asked with the config %q: %w", config, err)
		}
	}
	return nil
}

func checkPolicyUnknown(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	if _, err := s.usual(ctx, config); err != nil {
		return skip("it decides nothing: %v", err)
	}
	_, err = s.policy().decide(ctx, s, s.policy().newer(s, config))
	return err
}

// decision is a request to a policy and its answer.
type decision struct {
	request, answer proto.Message
	err             error
}

// firstDecisions returns the answers to requests of all sorts, which it asks once.
func (s *subject) firstDecisions(ctx context.Context) ([]decision, error) {
	config, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return remembered(s, "decisions", func() []decision {
		var all []decision
		for _, request := range s.policy().asked(s, config) {
			one := decision{request: request}
			one.answer, one.err = s.policy().decide(ctx, s, request)
			all = append(all, one)
			if hung(one.err) {
				break // the others would hang as well
			}
		}
		return all
	}), nil
}

// rightDecisions returns the first decisions. It skips a rule if one of them is an error.
func (s *subject) rightDecisions(ctx context.Context) ([]decision, error) {
	all, err := s.firstDecisions(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.err != nil {
			return nil, skip("it answers an error: %v", one.err)
		}
	}
	return all, nil
}

// sameAgain asks the requests of decisions again and compares the answers. when describes the circumstances for the error.
func (s *subject) sameAgain(ctx context.Context, all []decision, when string) error {
	for _, one := range all {
		again, err := s.policy().decide(ctx, s, one.request)
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		if !proto.Equal(one.answer, again) {
			return fmt.Errorf("first it decides %v, and %s %v", clip(fmt.Sprint(one.answer)), when, clip(fmt.Sprint(again)))
		}
	}
	return nil
}

func checkPure(ctx context.Context, s *subject) error {
	all, err := s.rightDecisions(ctx)
	if err != nil {
		return err
	}
	for _, when := range []string{"the second time", "in the next process"} {
		if err := s.sameAgain(ctx, all, when); err != nil {
			return err
		}
		s.host.stop()
	}
	return nil
}

func checkPolicyConcurrent(ctx context.Context, s *subject) error {
	all, err := s.rightDecisions(ctx)
	if err != nil {
		return err
	}
	problems := make([]error, callers)
	var asking sync.WaitGroup
	for i := range callers {
		asking.Go(func() {
			for round := range 4 {
				one := all[(i+round)%len(all) : (i+round)%len(all)+1]
				if problems[i] = s.sameAgain(ctx, one, "along with others"); problems[i] != nil {
					return
				}
			}
		})
	}
	asking.Wait()
	return errors.Join(problems...)
}
