package operation

import "time"

// Reasons of notices, as events name them.
const (
	TroubleBegan = "OperationTrouble"
	TimedOut     = "OperationTimedOut"
	Stalled      = "OperationStalled"
)

// Notice is something about an operation that people should know at once.
type Notice struct {
	Owner  *Owner
	Reason string // one of the constants
	Text   string
}

// noticeEvery is the least time between two notices of one reason about the operations that one action has for one
// owner.
const noticeEvery = time.Minute

// notice has unlock announce a notice, unless a similar one was announced a moment ago. The caller holds mu.
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
