package conformance

import (
	"context"
	"sync"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// Run checks all rules that make sense for a target. What is wrong with the target is in the report. An error without a
// report means that the test could not be made. When ctx ends, Run returns both: the report as far as it goes, in which
// all other rules are skipped, and the cause.
func Run(ctx context.Context, target Target, opts ...Option) (*Report, error) {
	r, err := open(ctx, target, opts)
	if err != nil {
		return nil, err
	}
	defer r.suite.Close()
	report := &Report{
		Target: target.String(), PluginVersion: r.suite.Info.GetPluginVersion(),
		FrameworkVersion: r.suite.Info.GetFrameworkVersion(),
	}
	for i, result := range r.suite.CheckAll(ctx, r.plan, r.next) {
		of := r.plan[i]
		report.add(of.Subject.Kind, of.Subject.Name, newResult(of.Rule, result))
	}
	if ctx.Err() != nil {
		report.Interrupted = true
		return report, context.Cause(ctx)
	}
	return report, nil
}

// run is one test of a target.
type run struct {
	*options
	suite *suite.Suite
	plan  []suite.Planned

	mu   sync.Mutex
	done int // checks that have begun
}

// open starts the target and plans its test.
func open(ctx context.Context, target Target, opts []Option) (*run, error) {
	o := newOptions(opts)
	s, err := suite.Open(ctx, target.unwrap(), &o.Options)
	if err != nil {
		return nil, err
	}
	return &run{options: o, suite: s, plan: s.Plan(o.rules)}, nil
}

// next reports the progress before a check.
func (r *run) next(one suite.Planned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress(Progress{Kind: one.Subject.Kind, Name: one.Subject.Name, Rule: one.Rule.ID, Done: r.done,
		Total: len(r.plan)})
	r.done++
}

func (r *run) check(ctx context.Context, one suite.Planned) Result {
	r.next(one)
	return newResult(one.Rule, r.suite.Check(ctx, one))
}
