package output

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/utils/clock"
)

// output takes the lines of a process: it understands them, remembers the last ones, and passes on as many as the
// process may write. It is safe for concurrent use.
type Output struct {
	Pass      func(Line)
	Drop      func(reason string) // counts a line that is not passed on, or not whole; may be nil
	tail      tail
	PerSecond int // negative means no limit
	Clock     clock.PassiveClock

	mu      sync.Mutex
	second  time.Time // when the current second began
	passed  int       // lines in it
	leftOut int       // not told yet
}

// Why lines are dropped, as metrics tell it.
const (
	droppedRate   = "rate"   // left out, it was one too many in its second
	droppedLength = "length" // cut, it was too long
)

// Last returns the last lines, or once a crash has begun its first ones.
func (o *Output) Last() []string { return o.tail.last() }

// line takes one line, of which the end may be cut already. It is the caller's again when line returns.
func (o *Output) Line(line []byte, cut bool) {
	parsed := o.tail.add(line)
	passes, untold := o.count()
	o.tell(untold)
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

// count counts a line in. It gives the number of lines left out in the seconds before, once.
func (o *Output) count() (passes bool, untold int) {
	if o.PerSecond < 0 {
		return true, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.Clock.Now(); now.Sub(o.second) >= time.Second {
		o.second, o.passed = now, 0
		untold, o.leftOut = o.leftOut, 0
	}
	if o.passed >= o.PerSecond {
		o.leftOut++
		return false, untold
	}
	o.passed++
	return true, untold
}

// flush tells now of the lines that were left out.
func (o *Output) Flush() {
	o.mu.Lock()
	untold := o.leftOut
	o.leftOut = 0
	o.mu.Unlock()
	o.tell(untold)
}

func (o *Output) tell(leftOut int) {
	if leftOut == 0 {
		return
	}
	o.Pass(Line{
		Level:   hclog.Warn,
		Message: "lines of this plugin are left out, it writes more than plugins.limits.linesPerSecond",
		Args:    []any{"leftOut", leftOut, "linesPerSecond", o.PerSecond}, structured: true,
	})
}
