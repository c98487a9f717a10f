package operation

import "time"

// Reasons of notices, and of the events made from them.
const (
	TroubleBegan = "OperationTrouble"
	TimedOut     = "OperationTimedOut"
	Stalled      = "OperationStalled"
)

// Notice is news about an operation that users should get at once.
type Notice struct {
	Owner  *Owner
	Reason string // one of the constants
	Text   string
}

// noticeEvery is the shortest time between two notices with the same reason about the operations of one action for one
// owner.
const noticeEvery = time.Minute

// notice queues a notice for unlock, unless a similar one was announced a short time ago. The caller holds mu.
func (m *Monitor) notice(t *tracked, reason, text string, now time.Time) {
	g, key := t.group, [2]string{t.Action, reason}
	if last, noticed := g.noticed[key]; noticed && now.Sub(last) < noticeEvery {
		return
	}
	if g.noticed == nil {
		g.noticed = map[[2]string]time.Time{}
	}
	g.noticed[key] = now
	m.notices = append(m.notices, Notice{Owner: g.owner, Reason: reason, Text: text})
}
