package end

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/action"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/operation"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/policy"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/storage"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
)

// holder is a process, or a plugin that has a process of its own.
type holder struct{ *suite.Subject }

// with adapts a check of a holder.
func with(check func(context.Context, *holder) error) suite.Check {
	return func(ctx context.Context, s *suite.Subject) error { return check(ctx, &holder{s}) }
}

// pace returns the number of concurrent calls of the search for leaks: one, unless the calls are slow.
func (s *holder) pace(perCall time.Duration, calls int) (int, error) {
	switch all := perCall * time.Duration(calls); {
	case all <= s.LeakTime/4 && perCall < s.SlowCall:
		return 1, nil
	case all/suite.SlowCallers <= s.LeakTime:
		return suite.SlowCallers, nil
	default:
		return 0, suite.Skip("a call takes %s, and there would have to be %d of them", perCall.Round(time.Millisecond), calls)
	}
}

// round makes calls, some of them at once.
func round(ctx context.Context, work []task, calls, atOnce int) error {
	calling, ctx := errgroup.WithContext(ctx)
	calling.SetLimit(atOnce)
	for i := range calls {
		calling.Go(func() error {
			if err := work[i%len(work)](ctx); suite.Hung(err) {
				return suite.Skip("a call ended with %v", err)
			}
			return ctx.Err()
		})
	}
	return calling.Wait()
}

// task is a repeatable call of the search for leaks.
type task func(context.Context) error

// work returns the tasks of the search for leaks.
func (s *holder) work(ctx context.Context) []task {
	var work []task
	for _, plugin := range s.together() {
		work = append(work, workOf(ctx, plugin)...)
	}
	return work
}

// endingWork returns the tasks of work after which no operation goes on: actions whose Cancel does not end operations
// are left out.
func (s *holder) endingWork(ctx context.Context) []task {
	var work []task
	for _, plugin := range s.together() {
		if wire.ActionKinds()[plugin.Kind].Progress == nil || !operation.LeavesWork(ctx, plugin) {
			work = append(work, workOf(ctx, plugin)...)
		}
	}
	return work
}

// together returns the plugins that a host calls in one process.
func (s *holder) together() []*suite.Subject {
	if s.Kind != suite.Process {
		return []*suite.Subject{s.Subject}
	}
	var all []*suite.Subject
	for _, plugin := range s.Plugins {
		if !wire.OwnProcess(plugin.Kind) {
			all = append(all, plugin.In(s.Host))
		}
	}
	return all
}

// workSize is the size in bytes of the items and objects in the search for leaks.
const workSize = 16 << 10

// workOf returns the tasks of one plugin, or nil if its calls fail.
func workOf(ctx context.Context, s *suite.Subject) []task {
	var work task
	switch {
	case s.Unserved(ctx) != nil:
	case wire.IsAction(s.Kind):
		work = action.Work(ctx, s, workSize)
	case wire.IsPolicy(s.Kind):
		work = policy.Work(s)
	case s.Kind == osv1.Kind().Wire:
		work = func(ctx context.Context) error { return storage.StoreWork(ctx, s, workSize) }
	case s.Kind == vsv1.Kind().Wire:
		work = func(ctx context.Context) error { return storage.SnapshotterWork(ctx, s, workSize) }
	}
	if work == nil {
		return nil
	}
	return []task{work}
}
