package conformance

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
)

// leakGoroutines is the smallest growth that is taken for a leak.
const leakGoroutines = 16

// checkGoroutines compares the goroutines of two processes after a different number of calls. A Go program writes its goroutines
// to stderr on SIGQUIT, which ends it.
func checkGoroutines(ctx context.Context, s *subject) error {
	if s.leakCalls == 0 {
		return skip("the search for leaks is disabled")
	}
	if _, err := s.needsProcess(ctx); err != nil {
		return err
	}
	if target, ok := s.target.(*binary); !ok || !isGo(target.path) {
		return skip("it is not a Go program, so its goroutines cannot be counted")
	}
	few := max(s.leakCalls/10, leakGoroutines/2)
	many := few + max(s.leakCalls, 4*leakGoroutines)
	before, work, err := s.goroutinesAfter(ctx, few)
	if err != nil {
		return err
	}
	after, _, err := s.goroutinesAfter(ctx, many)
	if err != nil {
		return err
	}
	calls := int64(len(work) * (many - few))
	if grown := after - before; grown >= max(leakGoroutines, calls/20) {
		return fmt.Errorf("there are %d goroutines after %d calls, and %d after %d more", before, len(work)*few, after, calls)
	}
	return nil
}

// isGo reports whether the file at path is a program that was built from Go.
func isGo(path string) bool {
	_, err := buildinfo.ReadFile(path)
	return err == nil
}

// goroutinesAfter returns the number of goroutines of a new process after it has performed each of the returned tasks rounds
// times.
func (s *subject) goroutinesAfter(ctx context.Context, rounds int) (int64, []task, error) {
	s.host.stop()
	all := s.endingWork(ctx)
	if len(all) == 0 {
		return 0, nil, skip("no call of the plugin can be repeated")
	}
	began := time.Now()
	if err := round(ctx, all, len(all), 1); err != nil {
		return 0, nil, err
	}
	atOnce, err := pace(time.Since(began)/time.Duration(len(all)), len(all)*rounds)
	if err != nil {
		return 0, nil, err
	}
	if err := round(ctx, all, len(all)*(rounds-1), atOnce); err != nil {
		return 0, nil, err
	}
	// A goroutine that ends shortly after its call does not leak.
	if err := sleep(ctx, min(s.operationWait, goroutineWait)); err != nil {
		return 0, nil, err
	}
	run := s.host.take()
	if run == nil || run.process == nil {
		return 0, nil, skip("the process has ended")
	}
	defer run.stop()
	if err := process.Quit(run.process.Cmd.Process); err != nil {
		return 0, nil, skipUnsupported(err)
	}
	if !run.process.EndsWithin(ctx, process.EndTime) {
		return 0, nil, skip("the process does not end on SIGQUIT")
	}
	run.process.Readers.Wait()
	if run.process.Goroutines.Load() == 0 {
		return 0, nil, skip("it writes no goroutines to stderr on SIGQUIT")
	}
	return run.process.Goroutines.Load(), all, nil
}

// goroutineWait is how long a goroutine may outlive the call that started it.
const goroutineWait = 2 * time.Second
