// Package policy has the rules of policies: queue admission, load soothing and manifest writers. Start reading at
// policy.go.
package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// Rules returns the rules of all policies.
func Rules() []suite.Rule {
	return slices.Concat(commonRules(), queueRules(), soothingRules(), manifestRules())
}

func commonRules() []suite.Rule {
	every := []string{qav1.Kind().Wire, lsv1.Kind().Wire, mwv1.Kind().Wire}
	pure := []string{qav1.Kind().Wire, lsv1.Kind().Wire}
	return []suite.Rule{
		{
			ID: "policy-config", Kinds: every, Check: with(checkPolicyConfig),
			Text: "The given config is valid by the schema that the plugin announces, and the plugin accepts it.",
		},
		{
			ID: "policy-config-empty", Kinds: every, Check: with(checkPolicyConfigEmpty),
			Text: "A plugin whose schema allows an empty object decides with one, and without a config. Any other returns an " +
				"error.",
		},
		{
			ID: "policy-config-garbage", Kinds: every, Check: with(checkPolicyConfigGarbage),
			Text: "A request whose config is not a JSON object is answered, with an error or without. The process does not " +
				"exit.",
		},
		{
			ID: "policy-wire-unknown", Kinds: every, Check: with(checkPolicyUnknown),
			Text: "A request may have fields and values of enumerations that the plugin does not know.",
		},
		{
			ID: "policy-pure", Kinds: pure, Check: with(checkPure),
			Text: "The same request has the same answer, whatever was asked before, also in another process.",
		},
		{
			ID: "policy-clock", Kinds: pure, Check: with(checkClock),
			Text: "A policy knows the time from its request alone: whatever the clock and the time zone of its machine say, " +
				"snapshots with the same ages, times of day, weekdays and dates have the same decision.",
		},
		{
			ID: "policy-concurrent", Kinds: pure, Check: with(checkPolicyConcurrent),
			Text: "32 concurrent calls have the same answers as sequential ones.",
		},
	}
}

func checkPolicyConfig(ctx context.Context, s *policy) error {
	if err := s.NeedsService(ctx); err != nil {
		return err
	}
	config, given, err := s.PolicyConfig()
	if err != nil {
		return err
	}
	if !given {
		return suite.Skip("no config is given for it, see WithConfig and --config")
	}
	if err := suite.FitsSchema(s.Schema, config); err != nil {
		return fmt.Errorf("the config %s: %w", config, err)
	}
	if _, err := s.usual(ctx, config); err != nil {
		return fmt.Errorf("asked with the config %s: %w", config, err)
	}
	return nil
}

func checkPolicyConfigEmpty(ctx context.Context, s *policy) error {
	if err := s.NeedsService(ctx); err != nil {
		return err
	}
	takes := suite.FitsSchema(s.Schema, []byte("{}")) == nil
	for what, config := range map[string][]byte{"the config {}": []byte("{}"), "no config": nil} {
		_, err := s.usual(ctx, config)
		switch {
		case suite.Hung(err) || suite.Panicked(err):
			return fmt.Errorf("asked with %s: %w", what, err)
		case takes && err != nil:
			return fmt.Errorf("its schema takes an empty object; asked with %s: %w", what, err)
		case !takes && err == nil:
			return fmt.Errorf("its schema does not take an empty object, and it decides with %s", what)
		}
	}
	return nil
}

func checkPolicyConfigGarbage(ctx context.Context, s *policy) error {
	if err := s.NeedsService(ctx); err != nil {
		return err
	}
	configs := []string{"\x00\xff", "[]", "null", `"text"`, `{"a":`}
	return s.Each(ctx, len(configs), func(ctx context.Context, i int) error {
		if _, err := s.usual(ctx, []byte(configs[i])); suite.Hung(err) || suite.Panicked(err) {
			return fmt.Errorf("asked with the config %q: %w", configs[i], err)
		}
		return nil
	})
}

func checkPolicyUnknown(ctx context.Context, s *policy) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	if _, err := s.usual(ctx, config); err != nil {
		return suite.Skip("it decides nothing: %v", err)
	}
	_, err = s.calls().decide(ctx, s, s.calls().newer(s, config))
	return err
}

func checkPure(ctx context.Context, s *policy) error {
	all, err := s.rightDecisions(ctx)
	if err != nil {
		return err
	}
	for _, when := range []string{"the second time", "in the next process"} {
		if err := s.sameAgain(ctx, all, when); err != nil {
			return err
		}
		s.Host.Stop()
	}
	return nil
}

func checkPolicyConcurrent(ctx context.Context, s *policy) error {
	all, err := s.rightDecisions(ctx)
	if err != nil {
		return err
	}
	problems := make([]error, suite.Callers)
	var asking sync.WaitGroup
	for i := range suite.Callers {
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
