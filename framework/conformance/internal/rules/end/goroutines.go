package end

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// leakGoroutines is the smallest growth that is taken for a leak.
const leakGoroutines = 16

// checkGoroutines compares the goroutines of two processes after a different number of calls. If there are more after
// more calls, a third process, with many more, shows whether they go on to grow: a pool of idle connections has its
// goroutines, up to its size. A Go program writes its goroutines to stderr on SIGQUIT, which ends it.
func checkGoroutines(ctx context.Context, s *holder) error {
	if s.LeakCalls == 0 {
		return suite.Skip("the search for leaks is disabled")
	}
	if _, err := s.NeedsProcess(ctx); err != nil {
		return err
	}
	if target, ok := s.Target.(*suite.Binary); !ok || !isGo(target.Path) {
		return suite.Skip("it is not a Go program, so its goroutines cannot be counted")
	}
	few := max(s.LeakCalls/10, leakGoroutines/2)
	many := few + max(s.LeakCalls, 4*leakGoroutines)
	before, work, err := s.goroutinesAfter(ctx, few)
	if err != nil {
		return err
	}
	after, _, err := s.goroutinesAfter(ctx, many)
	if err != nil {
		return err
	}
	calls := int64(len(work) * (many - few))
	grown := after - before
	if grown < max(leakGoroutines, calls/20) {
		return nil
	}
	const times = 4 // of a leak, as many goroutines more
	last, _, err := s.goroutinesAfter(ctx, many+times*(many-few))
	if err != nil {
		return err
	}
	if last-after < times*grown/2 {
		return nil
	}
	return fmt.Errorf("there are %d goroutines after %d calls, %d after %d more, and %d after another %d", before,
		len(work)*few, after, calls, last, times*calls)
}

// isGo reports whether the file at path is a program that was built from Go.
func isGo(path string) bool {
	_, err := buildinfo.ReadFile(path)
	return err == nil
}

// goroutinesAfter returns the number of goroutines of a new process after it has performed each of the returned tasks
// rounds times.
func (s *holder) goroutinesAfter(ctx context.Context, rounds int) (int64, []task, error) {
	s.Host.Stop()
	all := s.endingWork(ctx)
	if len(all) == 0 {
		return 0, nil, suite.Skip("no call of the plugin can be repeated")
	}
	began := time.Now()
	if err := round(ctx, all[:1], 1, 1); err != nil {
		return 0, nil, err
	}
	atOnce, err := s.pace(time.Since(began), len(all)*rounds)
	if err != nil {
		return 0, nil, err
	}
	if err := round(ctx, all, len(all)*rounds, atOnce); err != nil {
		return 0, nil, err
	}
	// A goroutine that ends shortly after its call does not leak. A busy machine, on which calls take long, gets longer.
	if err := suite.Sleep(ctx, min(s.OperationWait, goroutineWait+time.Since(began))); err != nil {
		return 0, nil, err
	}
	run := s.Host.Take()
	if run == nil || run.Process == nil {
		return 0, nil, suite.Skip("the process has ended")
	}
	defer run.Stop()
	if err := process.Quit(run.Process.Cmd.Process); err != nil {
		return 0, nil, suite.SkipUnsupported(err)
	}
	if !run.Process.EndsWithin(ctx, s.EndTime) {
		return 0, nil, suite.Skip("the process does not end on SIGQUIT")
	}
	run.Process.Readers.Wait()
	if run.Process.Goroutines.Load() == 0 {
		return 0, nil, suite.Skip("it writes no goroutines to stderr on SIGQUIT")
	}
	return run.Process.Goroutines.Load(), all, nil
}

// goroutineWait is how long a goroutine may outlive the call that started it.
const goroutineWait = 2 * time.Second
