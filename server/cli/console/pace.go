package console

import (
	"sync"

	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// pacesOf returns how far loads and runs were at the last looks of the viewer.
func pacesOf(l *console.Look) *status.Paces {
	return console.Keep(l, "paces", func() *status.Paces { return &status.Paces{} })
}

// reports are the last two reports about operations.
type reports struct {
	mu           sync.Mutex
	before, last *serverreport.Operations
}

// reportBefore returns the report about the same operations that the viewer has seen before this one, nil if there is
// none. key identifies what the report is about.
func reportBefore(l *console.Look, key string, now *serverreport.Operations) *serverreport.Operations {
	r := console.Keep(l, "reports/"+key, func() *reports { return &reports{} })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || now.Time.After(r.last.Time) {
		r.before, r.last = r.last, now
	}
	if r.last != now && !r.last.Time.Equal(now.Time) {
		return nil
	}
	return r.before
}
