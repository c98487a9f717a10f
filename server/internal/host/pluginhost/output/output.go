package output

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/utils/clock"
)

// Output parses the lines of a process, remembers the last ones, and passes on as many as the process may write. It is
// safe for concurrent use.
type Output struct {
	Pass      func(Line)
	Drop      func(reason string) // counts a line that is left out or truncated; may be nil
	tail      tail
	PerSecond int // negative means no limit
	Clock     clock.PassiveClock

	mu      sync.Mutex
	second  time.Time // when the current second began
	passed  int       // lines in it
	leftOut int       // not reported yet
}

// Reasons for dropping lines, as a metric labels them.
const (
	droppedRate   = "rate"   // left out, because there were too many in its second
	droppedLength = "length" // truncated, because it was too long
)

// Last returns the last lines, or once a crash has begun, its first lines.
func (o *Output) Last() []string { return o.tail.last() }

// Line handles one line, which may be truncated. It does not keep the slice.
func (o *Output) Line(line []byte, cut bool) {
	parsed := o.tail.add(line)
	passes, unreported := o.count()
	o.reportLeftOut(unreported)
	if passes {
		o.Pass(parsed)
	}
	switch {
	case o.Drop == nil:
	case !passes:
		o.Drop(droppedRate)
	case cut:
		o.Drop(droppedLength)
	}
}

// count counts a line. It returns the number of lines that were left out in the seconds before and not reported yet.
func (o *Output) count() (passes bool, unreported int) {
	if o.PerSecond < 0 {
		return true, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.Clock.Now(); now.Sub(o.second) >= time.Second {
		o.second, o.passed = now, 0
		unreported, o.leftOut = o.leftOut, 0
	}
	if o.passed >= o.PerSecond {
		o.leftOut++
		return false, unreported
	}
	o.passed++
	return true, unreported
}

// Flush reports the lines that were left out and not reported yet.
func (o *Output) Flush() {
	o.mu.Lock()
	unreported := o.leftOut
	o.leftOut = 0
	o.mu.Unlock()
	o.reportLeftOut(unreported)
}

func (o *Output) reportLeftOut(leftOut int) {
	if leftOut == 0 {
		return
	}
	o.Pass(Line{
		Level:   hclog.Warn,
		Message: "lines of this plugin are left out, it writes more than plugins.limits.linesPerSecond",
		Args:    []any{"leftOut", leftOut, "linesPerSecond", o.PerSecond}, structured: true,
	})
}
