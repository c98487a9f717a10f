package pluginhost

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/utils/clock"
)

// output takes the lines of a process: it understands them, remembers the last ones, and passes on as many as the
// process may write. It is safe for concurrent use.
type output struct {
	pass      func(logLine)
	drop      func(reason string) // counts a line that is not passed on, or not whole; may be nil
	tail      tail
	perSecond int // negative means no limit
	clock     clock.PassiveClock

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
func (o *output) Last() []string { return o.tail.last() }

// line takes one line, of which the end may be cut already. It is the caller's again when line returns.
func (o *output) line(line []byte, cut bool) {
	parsed := o.tail.add(line)
	passes, untold := o.count()
	o.tell(untold)
	if passes {
		o.pass(parsed)
	}
	switch {
	case o.drop == nil:
	case !passes:
		o.drop(droppedRate)
	case cut:
		o.drop(droppedLength)
	}
}

// count counts a line in. It gives the number of lines left out in the seconds before, once.
func (o *output) count() (passes bool, untold int) {
	if o.perSecond < 0 {
		return true, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.clock.Now(); now.Sub(o.second) >= time.Second {
		o.second, o.passed = now, 0
		untold, o.leftOut = o.leftOut, 0
	}
	if o.passed >= o.perSecond {
		o.leftOut++
		return false, untold
	}
	o.passed++
	return true, untold
}

// flush tells now of the lines that were left out.
func (o *output) flush() {
	o.mu.Lock()
	untold := o.leftOut
	o.leftOut = 0
	o.mu.Unlock()
	o.tell(untold)
}

func (o *output) tell(leftOut int) {
	if leftOut == 0 {
		return
	}
	o.pass(logLine{
		level:   hclog.Warn,
		message: "lines of this plugin are left out, it writes more than plugins.limits.linesPerSecond",
		args:    []any{"leftOut", leftOut, "linesPerSecond", o.perSecond}, structured: true,
	})
}
