package queue

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/queue"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// terminal is a file that is a terminal.
type terminal struct{ file *os.File }

// size returns the present number of columns and lines.
func (t terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.file.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

func terminalOf(w io.Writer) (terminal, bool) {
	file, ok := w.(*os.File)
	return terminal{file}, ok && term.IsTerminal(int(file.Fd()))
}

// screen is a view that draws the table of the queue over the previous one.
type screen struct {
	w    io.Writer
	size func() (width, height int)

	backups map[string]*velerov1.Backup // by name
	notice  string                      // until the next change
	answer  *status.QueueServer         // nil until the server has answered
	changed bool
	drawnAt time.Time
	drawn   []string // lines on the terminal
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
	width, height := s.size()
	var out strings.Builder
	if up := rows(s.drawn, width); up > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", up)
	}
	s.drawn = s.picture(now, width, height)
	for _, line := range s.drawn {
		out.WriteString("\r" + line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	_, err := io.WriteString(s.w, out.String())
	return err
}

// picture returns the lines to draw, cut to the size of the terminal.
func (s *screen) picture(now time.Time, width, height int) []string {
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
	if fit := max(3, height-1); len(lines) > fit {
		lines = append(lines[:fit-1], fmt.Sprintf("... and %d more", len(lines)-fit+1))
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}

// cut shortens text to the given number of columns.
func cut(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:max(0, columns-1)]) + "…"
}

// rows returns the number of lines that text takes on a terminal, which may have become narrower since it was drawn.
func rows(lines []string, width int) int {
	n := 0
	for _, line := range lines {
		n += max(1, (utf8.RuneCountInString(line)+width-1)/max(1, width))
	}
	return n
}
