package suite

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Planned is a rule that is to be checked on a subject.
type Planned struct {
	Rule    Rule
	Subject *Subject
}

// Result is the result of a check.
type Result struct {
	Err  error  // what the check returned
	Died string // how the process ended by itself during the check, or ""
	Took time.Duration
}

// Plan returns what rules are to be checked on what subjects, in the order of a report.
func (s *Suite) Plan(rules []Rule) []Planned {
	var first, middle, last []Planned
	for _, rule := range rules {
		switch {
		case !rule.appliesTo(Process):
		case rule.Alone:
			last = append(last, Planned{rule, s.Process})
		default:
			first = append(first, Planned{rule, s.Process})
		}
	}
	for _, plugin := range s.Plugins {
		for _, rule := range rules {
			if rule.appliesTo(plugin.Kind) {
				middle = append(middle, Planned{rule, plugin})
			}
		}
	}
	return slices.Concat(first, middle, last)
}

// pluginsAtOnce is the number of plugins that are tested at the same time.
const pluginsAtOnce = 8

// CheckAll performs all checks of a plan and returns their results in its order. The plugins of the target are tested
// at the same time, each in a process of its own; checks that measure or end a process follow one after the other.
// CheckAll calls next before each check.
func (s *Suite) CheckAll(ctx context.Context, plan []Planned, next func(Planned)) []Result {
	results := make([]Result, len(plan))
	check := func(which []int) {
		for _, i := range which {
			next(plan[i])
			results[i] = s.Check(ctx, plan[i])
		}
	}
	together, alone := map[*Subject][]int{}, []int{}
	for i, one := range plan {
		if one.Rule.Alone {
			alone = append(alone, i)
		} else {
			together[one.Subject] = append(together[one.Subject], i)
		}
	}
	check(together[s.Process])
	var testing errgroup.Group
	testing.SetLimit(pluginsAtOnce)
	for _, plugin := range s.Plugins {
		testing.Go(func() error {
			check(together[plugin])
			plugin.Host.Stop()
			return nil
		})
	}
	_ = testing.Wait() // what is wrong is in the results
	check(alone)
	return results
}

// Check performs one check.
func (s *Suite) Check(ctx context.Context, p Planned) Result {
	began := time.Now()
	if ctx.Err() != nil {
		return Result{Err: errInterrupted()}
	}
	if s.failed != nil {
		if p.Rule.ID == StartRule {
			return Result{Err: s.failed}
		}
		return Result{Err: Skip("the plugin does not start")}
	}
	err := p.Rule.Check(ctx, p.Subject)
	if ctx.Err() != nil {
		// the check may have mistaken the end of the context for a defect
		return Result{Err: errInterrupted(), Took: time.Since(began)}
	}
	died := p.Subject.Host.died(ctx, err)
	if Hung(err) {
		p.Subject.Host.Stop() // calls that hang would disturb the next checks
	}
	return Result{Err: err, Died: died, Took: time.Since(began)}
}

// errInterrupted returns why a rule was not checked after the end of the context.
func errInterrupted() error { return Skip("the test was interrupted before the end of this check") }
