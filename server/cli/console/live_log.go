package console

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	// tailLines is how many lines are kept of a run that has not ended, the last ones.
	tailLines = 200
	// tailPause is how often open pages are told that there are new lines.
	tailPause = 500 * time.Millisecond
	// firstLines is how long a page waits for the first lines.
	firstLines = 300 * time.Millisecond
)

// tail is the end of the log of a run that has not ended, which is followed until Close.
type tail struct {
	ctx  context.Context // ends with it
	stop context.CancelFunc

	mu      sync.Mutex
	lines   []string
	count   int // lines so far
	problem string
	changed bool
	begun   chan struct{} // closed with the first line, or the first problem
}

// newTail begins to follow a run. ctx only has values for it.
func newTail(ctx context.Context, f *runs.Follower) *tail {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &tail{ctx: ctx, stop: stop, begun: make(chan struct{})}
	f.Line, f.Problem = t.add, t.note
	go func() {
		for ctx.Err() == nil {
			if err := f.Run(ctx); err != nil && ctx.Err() == nil {
				t.note(err.Error())
			}
			select {
			case <-ctx.Done():
			case <-time.After(askAgain):
			}
		}
	}()
	return t
}

// OnChange implements console.Changer.
func (t *tail) OnChange(changed func()) {
	go func() {
		tick := time.NewTicker(tailPause)
		defer tick.Stop()
		for {
			select {
			case <-t.ctx.Done():
				return
			case <-tick.C:
			}
			t.mu.Lock()
			now := t.changed
			t.changed = false
			t.mu.Unlock()
			if now {
				changed()
			}
		}
	}()
}

// Close ends it.
func (t *tail) Close() error {
	t.stop()
	return nil
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change()
	if len(t.lines) == tailLines {
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:tailLines-1]
	}
	t.lines = append(t.lines, layout.Printable(shorten.Text(line, longestLine)))
	t.count++
}

func (t *tail) note(problem string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change()
	t.problem = problem
}

// change notes a change, and lets the first page go on. t.mu is held.
func (t *tail) change() {
	t.changed = true
	select {
	case <-t.begun:
	default:
		close(t.begun)
	}
}

// read returns the last lines that contain a text in lower case, the number of all lines so far, and why there may be
// none. It waits a moment for the first.
func (t *tail) read(ctx context.Context, search string) (lines []string, count int, problem string) {
	wait, cancel := context.WithTimeout(ctx, firstLines)
	defer cancel()
	select {
	case <-t.begun:
	case <-wait.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lines = []string{}
	for _, line := range t.lines {
		if strings.Contains(strings.ToLower(line), search) {
			lines = append(lines, line)
		}
	}
	return lines, t.count, t.problem
}

// readLive adds the last lines of a run that has not ended, from the log of the server's pods.
func (d *logDocument) readLive(ctx context.Context, l *console.Look, of logOf) error {
	key := "log/" + of.run.Kind + "/" + string(of.object.GetUID())
	d.Live = true
	d.Command += " --follow"
	if err := l.May(ctx, "get", "", "pods/log", ""); err != nil {
		console.Drop(l, key)
		d.Note = layout.OneLine(err.Error()) + ": the lines are there until the " + of.run.Kind + " has ended. " +
			d.whenStored(of)
		return nil
	}
	cluster := clusterOf(l)
	t, release, err := console.Hold(l, key, of.since.String(), func(ctx context.Context) (*tail, error) {
		return newTail(ctx, &runs.Follower{Cluster: cluster, Kind: of.run.Kind, Name: of.run.Name, Since: of.since}), nil
	})
	if err != nil {
		return err
	}
	defer release()
	d.Lines, d.Count, d.Problem = t.read(ctx, strings.ToLower(d.Search))
	d.From = max(1, d.Count-tailLines+1)
	return nil
}

// whenStored says where the stored log is, or when it will be.
func (d *logDocument) whenStored(of logOf) string {
	if d.Stored != "" {
		return "The lines of its own work are stored."
	}
	return fmt.Sprintf("The log is stored when it has run; the phase is %s.", of.run.Phase)
}
