package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

func endRules() []Rule {
	whole := []string{Process}
	holding := []string{Process, "ObjectStore", "VolumeSnapshotter"}
	return []Rule{
		{
			ID: "leak-memory", Kinds: holding, Severity: Must, check: checkMemory, last: true,
			Text: "The memory of the process does not grow with every call.",
		},
		{
			ID: "leak-files", Kinds: holding, Severity: Must, check: checkFiles, last: true,
			Text: "The open files of the process do not grow with every call.",
		},
		{
			ID: "leak-children", Kinds: holding, Severity: Must, check: checkChildren, last: true,
			Text: "The processes that the process has started do not grow with every call.",
		},
		{
			ID: "leak-goroutines", Kinds: holding, Severity: Must, check: checkGoroutines, last: true,
			Text: "The goroutines of a Go program do not grow with every call. They are counted in what it writes to stderr on SIGQUIT.",
		},
		{
			ID: "process-shutdown", Kinds: whole, Severity: Must, check: checkShutdown, last: true,
			Text: fmt.Sprintf("The process exits within %s of a call of go-plugin's shutdown service.", process.EndTime),
		},
		{
			ID: "process-sigterm", Kinds: whole, Severity: Must, check: checkSigterm, last: true,
			Text: fmt.Sprintf("The process exits within %s of a SIGTERM.", process.EndTime),
		},
		{
			ID: "process-children", Kinds: whole, Severity: Must, check: checkOrphans, last: true,
			Text: "Processes that the process has started end with it.",
		},
		{
			ID: "stdout-quiet", Kinds: whole, Severity: Should, check: checkStdout, last: true,
			Text: "After the handshake the process writes nothing to stdout. Log lines belong on stderr.",
		},
		{
			ID: "stderr-json", Kinds: whole, Severity: Should, check: checkStderr, last: true,
			Text: `Each line on stderr is a JSON object with "@message" and "@level", so that the host knows its level.`,
		},
	}
}

// The search for leaks makes its calls in rounds, and groups rounds into cycles. The process is measured after each round. The
// minimum of a cycle is compared with that of the cycle before, because garbage comes and goes.
const (
	cycleRounds = 4
	// leakCycles is the number of consecutive cycles in which a leak must grow. A process that collects its garbage late, or
	// fills a cache, stops growing.
	leakCycles   = 3
	leakBytes    = 8 * mebibyte
	leakFiles    = 4 * cycleRounds
	leakChildren = 4 * cycleRounds
)

// measurement holds the minimum of each cycle.
type measurement struct {
	cycles []process.Usage
	calls  int // in one cycle
	err    error
}

// measure makes cycles of calls until nothing grows any more, or until there are enough to call the growth a leak.
func (s *subject) measure(ctx context.Context) measurement {
	return remembered(s, "measurement", func() measurement {
		if s.leakCalls == 0 {
			return measurement{err: skip("the search for leaks is disabled")}
		}
		work := s.work(ctx)
		if len(work) == 0 {
			return measurement{err: skip("no call of the plugin can be repeated")}
		}
		began := time.Now()
		if err := work[0](ctx); err != nil {
			return measurement{err: skip("no call of the plugin can be repeated: %v", err)}
		}
		calls := max(s.leakCalls, 20*len(work))
		atOnce, err := pace(time.Since(began), calls*(1+2*cycleRounds))
		if err != nil {
			return measurement{err: err}
		}
		if _, err := s.needsProcess(ctx); err != nil {
			return measurement{err: err}
		}
		s.host.stop() // a new process holds nothing that earlier calls have left
		if os.Getenv("GOGC") == "" {
			s.host.environment = []string{"GOGC=20"} // so that the memory of a Go program follows what it holds
			defer func() {
				s.host.stop()
				s.host.environment = nil
			}()
		}
		// What a process acquires once it acquires in the first round.
		m := measurement{calls: calls * cycleRounds, err: round(ctx, work, calls, atOnce)}
		for m.err == nil && (len(m.cycles) < 2 || len(m.cycles) <= leakCycles && m.grows()) {
			var least process.Usage
			least, m.err = s.cycle(ctx, work, calls, atOnce)
			m.cycles = append(m.cycles, least)
		}
		return m
	})
}

// cycle makes the rounds of one cycle and returns the minimum.
func (s *subject) cycle(ctx context.Context, work []task, calls, atOnce int) (least process.Usage, err error) {
	for i := range cycleRounds {
		if err := round(ctx, work, calls, atOnce); err != nil {
			return least, err
		}
		p := s.host.process()
		if p == nil {
			return least, skip("the process has ended")
		}
		used, err := process.UsageOf(p.Cmd.Process.Pid)
		if err != nil {
			return least, skipUnsupported(err)
		}
		if i == 0 {
			least = used
		}
		least.Memory, least.Files = min(least.Memory, used.Memory), min(least.Files, used.Files)
		least.Children = min(least.Children, used.Children)
	}
	return least, nil
}

// grows reports whether some resource has grown in every cycle so far.
func (m measurement) grows() bool {
	return m.grown(memoryOf, leakBytes)+m.grown(filesOf, leakFiles)+m.grown(childrenOf, leakChildren) > 0
}

func memoryOf(u process.Usage) int64   { return u.Memory }
func filesOf(u process.Usage) int64    { return u.Files }
func childrenOf(u process.Usage) int64 { return u.Children }

// grown returns the total growth of a resource, or 0 unless it grew by at least step in each cycle.
func (m measurement) grown(of func(process.Usage) int64, step int64) int64 {
	for i := 1; i < len(m.cycles); i++ {
		if of(m.cycles[i])-of(m.cycles[i-1]) < step {
			return 0
		}
	}
	return of(m.cycles[len(m.cycles)-1]) - of(m.cycles[0])
}

// leakTime is the time limit for the calls of the search for leaks.
const leakTime = 2 * time.Minute

// pace returns the number of concurrent calls of the search for leaks: one, unless the calls are slow.
func pace(perCall time.Duration, calls int) (int, error) {
	switch all := perCall * time.Duration(calls); {
	case all <= leakTime/4:
		return 1, nil
	case all/callers <= leakTime:
		return callers, nil
	default:
		return 0, skip("a call takes %s, and there would have to be %d of them", perCall.Round(time.Millisecond), calls)
	}
}

// round makes calls, some of them at once.
func round(ctx context.Context, work []task, calls, atOnce int) error {
	calling, ctx := errgroup.WithContext(ctx)
	calling.SetLimit(atOnce)
	for i := range calls {
		calling.Go(func() error {
			if err := work[i%len(work)](ctx); hung(err) {
				return skip("a call ended with %v", err)
			}
			return ctx.Err()
		})
	}
	return calling.Wait()
}

// workSize is the size in bytes of the items and objects in the search for leaks.
const workSize = 16 << 10

// task is a repeatable call of the search for leaks.
type task func(context.Context) error

// work returns the tasks of the search for leaks.
func (s *subject) work(ctx context.Context) []task {
	if s.kind != Process {
		return s.workOf(ctx)
	}
	var work []task
	for _, plugin := range s.plugins {
		if plugin.host == s.host {
			work = append(work, plugin.workOf(ctx)...)
		}
	}
	return work
}

// endingWork returns the tasks of work after which no operation goes on: actions whose Cancel does not end operations are left out.
func (s *subject) endingWork(ctx context.Context) []task {
	if s.kind != Process {
		return s.workOf(ctx)
	}
	var all []task
	for _, plugin := range s.plugins {
		if plugin.host == s.host && (plugin.action().Progress == nil || !plugin.leavesWork(ctx)) {
			all = append(all, plugin.workOf(ctx)...)
		}
	}
	return all
}

// workOf returns the tasks of one plugin, or nil if its calls fail.
func (s *subject) workOf(ctx context.Context) []task {
	if s.unserved(ctx) != nil {
		return nil
	}
	if _, ok := wire.ActionKinds()[s.kind]; ok {
		one, err := s.sound(ctx)
		if err != nil {
			return nil
		}
		q := s.question(one.sample.Padded())
		q.Padding = workSize
		if _, err := s.execute(ctx, q); err != nil {
			q = one.question
		}
		return []task{func(ctx context.Context) error {
			got, err := s.execute(ctx, q)
			s.abandon(ctx, q, got)
			return err
		}}
	}
	switch {
	case s.kind == "ObjectStore":
		return []task{s.storeWork}
	case s.kind == "VolumeSnapshotter":
		return []task{s.snapshotterWork}
	case wire.IsPolicy(s.kind):
		config, err := s.config()
		if err != nil {
			return nil
		}
		return []task{func(ctx context.Context) error {
			_, err := s.usual(ctx, config)
			return err
		}}
	}
	return nil
}

// snapshotterWork asks about a volume of another storage system.
func (s *subject) snapshotterWork(ctx context.Context) error {
	ready, err := s.snapshotter(ctx)
	if err != nil {
		return err
	}
	_, err = ready.volumeID(ctx, sample.Pad(foreignVolume().Padded().Stored(), workSize))
	return err
}

// storeWork writes, reads and deletes an object.
func (s *subject) storeWork(ctx context.Context) error {
	ready, err := s.store(ctx)
	if err != nil {
		return err
	}
	if err := ready.comesBack(ctx, folder+"work", sample.Padding(workSize)); err != nil {
		return err
	}
	return ready.remove(ctx, folder+"work")
}

func checkMemory(ctx context.Context, s *subject) error {
	m := s.measure(ctx)
	if m.err != nil {
		return m.err
	}
	if grown := m.grown(memoryOf, leakBytes); grown > 0 {
		return fmt.Errorf("it grew by %.1f MiB in %d calls, to %.1f MiB, all the time",
			float64(grown)/mebibyte, m.calls*leakCycles, float64(m.cycles[leakCycles].Memory)/mebibyte)
	}
	return nil
}

func checkFiles(ctx context.Context, s *subject) error { return s.counts(ctx, filesOf, leakFiles) }

func checkChildren(ctx context.Context, s *subject) error {
	return s.counts(ctx, childrenOf, leakChildren)
}

// counts returns an error if the number of a resource keeps growing.
func (s *subject) counts(ctx context.Context, of func(process.Usage) int64, step int64) error {
	m := s.measure(ctx)
	if m.err != nil {
		return m.err
	}
	if grown := m.grown(of, step); grown > 0 {
		return fmt.Errorf("there are %d more after %d calls, %d in all", grown, m.calls*leakCycles, of(m.cycles[leakCycles]))
	}
	return nil
}

// worked returns a new run in which each plugin has answered a call. The caller must stop it.
func (s *subject) worked(ctx context.Context) (*running, error) {
	if _, err := s.needsProcess(ctx); err != nil {
		return nil, err
	}
	s.host.stop() // the next call starts a new run
	for _, work := range s.work(ctx) {
		_ = work(ctx)
	}
	if _, err := s.needsProcess(ctx); err != nil {
		return nil, err
	}
	return s.host.take(), nil
}

func checkShutdown(ctx context.Context, s *subject) error {
	run, err := s.worked(ctx)
	if err != nil {
		return err
	}
	defer run.stop()
	ctx, cancel := s.call(ctx)
	defer cancel()
	// The connection may break before the answer arrives.
	if err := run.process.Shutdown(ctx); status.Code(err) == codes.Unimplemented {
		return skip("it does not serve plugin.GRPCController; hosts end it by a signal")
	}
	if !run.process.EndsWithin(ctx, process.EndTime) {
		return errors.New("it keeps running")
	}
	return nil
}

// termination describes how a process reacted to SIGTERM.
type termination struct {
	err  error // about the process itself
	left error // about the processes that it had started
}

func (s *subject) terminated(ctx context.Context) termination {
	return remembered(s, "termination", func() termination {
		run, err := s.worked(ctx)
		if err != nil {
			return termination{err, err}
		}
		defer run.stop()
		leader := run.process.Cmd.Process
		if err := process.Terminate(leader); err != nil {
			err = skipUnsupported(err)
			return termination{err, err}
		}
		if !run.process.EndsWithin(ctx, process.EndTime) {
			return termination{errors.New("it keeps running"), skip("the process does not end")}
		}
		for deadline := time.Now().Add(process.Patience); process.GroupLives(leader); {
			if time.Now().After(deadline) {
				return termination{left: errors.New("a process of its group keeps running")}
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return termination{left: err}
			}
		}
		return termination{}
	})
}

func checkSigterm(ctx context.Context, s *subject) error { return s.terminated(ctx).err }

func checkOrphans(ctx context.Context, s *subject) error { return s.terminated(ctx).left }

func checkStdout(ctx context.Context, s *subject) error {
	if _, err := s.needsProcess(ctx); err != nil {
		return err
	}
	if line := s.output.OnStdout(); line != "" {
		return fmt.Errorf("it wrote %.300q", line)
	}
	return nil
}

func checkStderr(ctx context.Context, s *subject) error {
	if _, err := s.needsProcess(ctx); err != nil {
		return err
	}
	lines, odd := s.output.OnStderr()
	if lines == 0 {
		return skip("it wrote nothing to stderr")
	}
	if odd != "" {
		return fmt.Errorf("it wrote %.300q", strings.TrimSpace(odd))
	}
	return nil
}
