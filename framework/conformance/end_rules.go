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
)

func endRules() []Rule {
	process := []string{Process}
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
			ID: "process-shutdown", Kinds: process, Severity: Must, check: checkShutdown, last: true,
			Text: fmt.Sprintf("Asked to by go-plugin's service for it, the process ends within %s.", endTime),
		},
		{
			ID: "process-sigterm", Kinds: process, Severity: Must, check: checkSigterm, last: true,
			Text: fmt.Sprintf("The process ends within %s of a SIGTERM.", endTime),
		},
		{
			ID: "process-children", Kinds: process, Severity: Must, check: checkOrphans, last: true,
			Text: "What the process has started ends with it.",
		},
		{
			ID: "stdout-quiet", Kinds: process, Severity: Should, check: checkStdout, last: true,
			Text: "After the handshake nothing is written to stdout: log lines belong on stderr.",
		},
		{
			ID: "stderr-json", Kinds: process, Severity: Should, check: checkStderr, last: true,
			Text: `Each line on stderr is a JSON object with "@message" and "@level", so that the host knows the level of it and whose it is.`,
		},
	}
}

// usage is what a process holds.
type usage struct {
	memory   int64 // bytes
	files    int64 // that are open
	children int64 // processes
}

// The calls that look for leaks are made in rounds, and the rounds in cycles. A process is measured after each round, and
// what it held at the least in a cycle is compared with the cycle before: garbage comes and goes.
const (
	cycleRounds = 4
	// leakCycles is how many cycles in a row something has to grow in, each by so much. A process that collects its garbage
	// late, or fills a cache, stops growing at some time.
	leakCycles   = 3
	leakBytes    = 8 * mebibyte
	leakFiles    = 4 * cycleRounds
	leakChildren = 4 * cycleRounds
)

// measurement is what a process held at the least in each cycle.
type measurement struct {
	cycles []usage
	calls  int // of one cycle
	err    error
}

// measure makes cycles of calls until nothing grows, or long enough to say that something does.
func (s *subject) measure(ctx context.Context) measurement {
	return remembered(s, "measurement", func() measurement {
		if s.leakCalls == 0 {
			return measurement{err: skip("it is not looked for")}
		}
		work := s.work(ctx)
		if len(work) == 0 {
			return measurement{err: skip("there is no call that could be made again and again")}
		}
		began := time.Now()
		if err := work[0](ctx); err != nil {
			return measurement{err: skip("there is no call that could be made again and again: %v", err)}
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
			var least usage
			least, m.err = s.cycle(ctx, work, calls, atOnce)
			m.cycles = append(m.cycles, least)
		}
		return m
	})
}

// cycle makes the rounds of one cycle.
func (s *subject) cycle(ctx context.Context, work []task, calls, atOnce int) (least usage, err error) {
	for i := range cycleRounds {
		if err := round(ctx, work, calls, atOnce); err != nil {
			return least, err
		}
		p := s.host.process()
		if p == nil {
			return least, skip("the process has ended")
		}
		used, err := usageOf(p.cmd.Process.Pid)
		if err != nil {
			return least, err
		}
		if i == 0 {
			least = used
		}
		least.memory, least.files = min(least.memory, used.memory), min(least.files, used.files)
		least.children = min(least.children, used.children)
	}
	return least, nil
}

// grows says whether there is something that has grown so far.
func (m measurement) grows() bool {
	return m.grown(memoryOf, leakBytes)+m.grown(filesOf, leakFiles)+m.grown(childrenOf, leakChildren) > 0
}

func memoryOf(u usage) int64   { return u.memory }
func filesOf(u usage) int64    { return u.files }
func childrenOf(u usage) int64 { return u.children }

// grown is by how much something has grown over all cycles, when it did in each of them by step at least; else 0.
func (m measurement) grown(of func(usage) int64, step int64) int64 {
	for i := 1; i < len(m.cycles); i++ {
		if of(m.cycles[i])-of(m.cycles[i-1]) < step {
			return 0
		}
	}
	return of(m.cycles[len(m.cycles)-1]) - of(m.cycles[0])
}

// leakTime is how long the calls that look for leaks may take.
const leakTime = 2 * time.Minute

// pace returns how many calls are made at once by those that look for leaks: one, unless the calls are slow.
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

// workSize is how large the items and objects are, in bytes, with which is looked for leaks.
const workSize = 16 << 10

// task is something that can be done again and again, to look for leaks.
type task func(context.Context) error

// work are the calls that are made to look for leaks.
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

// endingWork returns the calls of work after which nothing goes on: those of actions whose operations end by Cancel.
func (s *subject) endingWork(ctx context.Context) []task {
	if s.kind != Process {
		return s.workOf(ctx)
	}
	var all []task
	for _, plugin := range s.plugins {
		if plugin.host == s.host && (plugin.action().progress == nil || !plugin.leavesWork(ctx)) {
			all = append(all, plugin.workOf(ctx)...)
		}
	}
	return all
}

// workOf are those of one plugin; nil when there is none that ends well.
func (s *subject) workOf(ctx context.Context) []task {
	if s.unserved(ctx) != nil {
		return nil
	}
	if _, ok := actionKinds()[s.kind]; ok {
		one, err := s.sound(ctx)
		if err != nil {
			return nil
		}
		q := s.question(one.sample.padded())
		q.padding = workSize
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
	case isPolicy(s.kind):
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

// snapshotterWork asks about a volume of somebody else.
func (s *subject) snapshotterWork(ctx context.Context) error {
	ready, err := s.snapshotter(ctx)
	if err != nil {
		return err
	}
	_, err = ready.volumeID(ctx, pad(foreignVolume().padded().stored(), workSize))
	return err
}

// storeWork writes, reads and deletes an object.
func (s *subject) storeWork(ctx context.Context) error {
	ready, err := s.store(ctx)
	if err != nil {
		return err
	}
	if err := ready.comesBack(ctx, folder+"work", padding(workSize)); err != nil {
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
			float64(grown)/mebibyte, m.calls*leakCycles, float64(m.cycles[leakCycles].memory)/mebibyte)
	}
	return nil
}

func checkFiles(ctx context.Context, s *subject) error { return s.counts(ctx, filesOf, leakFiles) }

func checkChildren(ctx context.Context, s *subject) error {
	return s.counts(ctx, childrenOf, leakChildren)
}

// counts is what is wrong when there are more and more of something.
func (s *subject) counts(ctx context.Context, of func(usage) int64, step int64) error {
	m := s.measure(ctx)
	if m.err != nil {
		return m.err
	}
	if grown := m.grown(of, step); grown > 0 {
		return fmt.Errorf("there are %d more after %d calls, %d in all", grown, m.calls*leakCycles, of(m.cycles[leakCycles]))
	}
	return nil
}

// worked is a run of its own, in which each plugin has had a call.
func (s *subject) worked(ctx context.Context) (*running, error) {
	if _, err := s.needsProcess(ctx); err != nil {
		return nil, err
	}
	s.host.stop() // the next call starts another, which is then ours
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
	// The connection may end before the answer comes.
	if err := run.process.shutdown(ctx); status.Code(err) == codes.Unimplemented {
		return skip("it does not have the service plugin.GRPCController; hosts end it by a signal")
	}
	if !run.process.endsWithin(ctx, endTime) {
		return errors.New("it runs on")
	}
	return nil
}

// termination is how a process took a SIGTERM.
type termination struct {
	err  error // of the process itself
	left error // of what it had started
}

func (s *subject) terminated(ctx context.Context) termination {
	return remembered(s, "termination", func() termination {
		run, err := s.worked(ctx)
		if err != nil {
			return termination{err, err}
		}
		defer run.stop()
		leader := run.process.cmd.Process
		if err := terminate(leader); err != nil {
			return termination{err, err}
		}
		if !run.process.endsWithin(ctx, endTime) {
			return termination{errors.New("it runs on"), skip("the process does not end")}
		}
		for deadline := time.Now().Add(patience); groupLives(leader); {
			if time.Now().After(deadline) {
				return termination{left: errors.New("a process of its group runs on")}
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
	s.output.mu.Lock()
	defer s.output.mu.Unlock()
	if s.output.onStdout != "" {
		return fmt.Errorf("it wrote %.300q", s.output.onStdout)
	}
	return nil
}

func checkStderr(ctx context.Context, s *subject) error {
	if _, err := s.needsProcess(ctx); err != nil {
		return err
	}
	s.output.mu.Lock()
	defer s.output.mu.Unlock()
	if s.output.lines == 0 {
		return skip("it wrote nothing to stderr")
	}
	if s.output.odd != "" {
		return fmt.Errorf("it wrote %.300q", strings.TrimSpace(s.output.odd))
	}
	return nil
}
