package queue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// screen is a view that draws the table of the queue over the previous one.
type screen struct {
	screen  *command.Screen
	backups map[string]*velerov1.Backup // by name
	notice  string                      // until the next change
	answer  *status.QueueServer         // nil until the server has answered
	changed bool
	drawnAt time.Time
}

func (s *screen) change(before, after *velerov1.Backup) error {
	s.changed, s.notice = true, ""
	if after != nil && status.InQueue(after) {
		s.backups[after.Name] = after
	} else if before != nil {
		delete(s.backups, before.Name)
	}
	return nil
}

func (s *screen) server(answer status.QueueServer) { s.changed, s.answer = true, &answer }

func (s *screen) note(text string) { s.changed, s.notice = true, layout.OneLine(text) }

// refresh draws changes at once, and the times each second.
func (s *screen) refresh(now time.Time) error {
	if !s.changed && now.Sub(s.drawnAt) < time.Second {
		return nil
	}
	return s.draw(now)
}

func (s *screen) end() error { return s.draw(time.Now()) }

func (s *screen) draw(now time.Time) error {
	s.changed, s.drawnAt = false, now
	return s.screen.Draw(s.picture(now))
}

// picture returns the lines to draw.
func (s *screen) picture(now time.Time) []string {
	line := queue.NewLine(slices.Collect(maps.Values(s.backups)))
	head := fmt.Sprintf("%d running, %d about to start, %d waiting", len(line.Running), len(line.Ready), len(line.Queued))
	if s.notice != "" {
		head += "; " + s.notice
	}
	lines := []string{head}
	items := status.QueueItems(line)
	if s.answer != nil {
		s.answer.Complete(items)
		lines = append(lines, s.answer.Text(status.Taken(items), now))
	}
	if len(items) > 0 {
		var text strings.Builder
		_ = status.QueueTable(items, now).Print(&text) // a strings.Builder returns no error
		lines = append(lines, strings.Split(strings.TrimRight(text.String(), "\n"), "\n")...)
	}
	return lines
}
