package end

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// The search for leaks makes its calls in rounds, and groups rounds into cycles. The process is measured after each
// round. The minimum of a cycle is compared with that of the cycle before, because garbage comes and goes.
const (
	cycleRounds = 4
	// leakCycles is the number of consecutive cycles in which a leak must grow. A process that collects its garbage late,
	// or fills a cache, stops growing.
	leakCycles   = 3
	leakBytes    = 8 * suite.MiB
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
func (s *holder) measure(ctx context.Context) measurement {
	return suite.Remembered(s.Subject, "measurement", func() measurement {
		if s.LeakCalls == 0 {
			return measurement{err: suite.Skip("the search for leaks is disabled")}
		}
		work := s.work(ctx)
		if len(work) == 0 {
			return measurement{err: suite.Skip("no call of the plugin can be repeated")}
		}
		began := time.Now()
		if err := work[0](ctx); err != nil {
			return measurement{err: suite.Skip("no call of the plugin can be repeated: %v", err)}
		}
		calls := max(s.LeakCalls, 20*len(work))
		atOnce, err := s.pace(time.Since(began), calls*(1+2*cycleRounds))
		if err != nil {
			return measurement{err: err}
		}
		if _, err := s.NeedsProcess(ctx); err != nil {
			return measurement{err: err}
		}
		s.Host.Stop() // a new process holds nothing that earlier calls have left
		if os.Getenv("GOGC") == "" {
			s.Host.Environment = []string{"GOGC=20"} // so that the memory of a Go program follows what it holds
			defer func() {
				s.Host.Stop()
				s.Host.Environment = nil
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
func (s *holder) cycle(ctx context.Context, work []task, calls, atOnce int) (least process.Usage, err error) {
	for i := range cycleRounds {
		if err := round(ctx, work, calls, atOnce); err != nil {
			return least, err
		}
		p := s.Host.Process()
		if p == nil {
			return least, suite.Skip("the process has ended")
		}
		used, err := process.UsageOf(p.Cmd.Process.Pid)
		if err != nil {
			return least, suite.SkipUnsupported(err)
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

func memoryOf(u process.Usage) int64 { return u.Memory }

func filesOf(u process.Usage) int64 { return u.Files }

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

func checkMemory(ctx context.Context, s *holder) error {
	m := s.measure(ctx)
	if m.err != nil {
		return m.err
	}
	if grown := m.grown(memoryOf, leakBytes); grown > 0 {
		return fmt.Errorf("it grew by %.1f MiB in %d calls, to %.1f MiB, all the time",
			float64(grown)/suite.MiB, m.calls*leakCycles, float64(m.cycles[leakCycles].Memory)/suite.MiB)
	}
	return nil
}

func checkFiles(ctx context.Context, s *holder) error {
	return s.counts(ctx, filesOf, leakFiles)
}

func checkChildren(ctx context.Context, s *holder) error {
	return s.counts(ctx, childrenOf, leakChildren)
}

// counts returns an error if the number of a resource keeps growing.
func (s *holder) counts(ctx context.Context, of func(process.Usage) int64, step int64) error {
	m := s.measure(ctx)
	if m.err != nil {
		return m.err
	}
	if grown := m.grown(of, step); grown > 0 {
		return fmt.Errorf("there are %d more after %d calls, %d in all", grown, m.calls*leakCycles, of(m.cycles[leakCycles]))
	}
	return nil
}
