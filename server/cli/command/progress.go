package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// State is a moment in the progress of some work.
type State struct {
	Phase       string
	Detail      string // more about the phase; may be empty
	Waiting     string // what the work waits for; may be empty
	What        string // the counted things, "items"
	Done, Total int    // Total is 0 while it is not known
}

// Progress shows how far some work is.
type Progress interface {
	State(State)
	Note(text string)
	End()
}

// NewProgress returns a Progress that draws a bar if w is a terminal, and otherwise prints a line for each phase and
// for each wait of the work. what names the work.
func NewProgress(w io.Writer, what string) Progress {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &Bar{w: w, what: what}
	}
	return &lines{w: w, what: what}
}

// NewBytesBar returns a bar that counts the bytes that are written to it, if w is a terminal. size is their number, -1
// if it is unknown.
func NewBytesBar(w io.Writer, what string, size int64) *progressbar.ProgressBar {
	file, ok := w.(*os.File)
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w), progressbar.OptionSetVisibility(ok && term.IsTerminal(int(file.Fd()))),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(
			100*time.Millisecond,
		), progressbar.OptionFullWidth())
}

// lines prints one line for each phase, and one when the work waits for something else.
type lines struct {
	w                    io.Writer
	what, phase, waiting string
}

func (l *lines) State(s State) {
	text := s.Phase
	if s.Waiting != "" {
		text += ", " + s.Waiting
	}
	if s.Phase != l.phase || s.Waiting != "" && s.Waiting != l.waiting {
		fmt.Fprintf(l.w, "%s: %s\n", l.what, text)
	}
	l.phase, l.waiting = s.Phase, s.Waiting
}

func (l *lines) Note(text string) { fmt.Fprintf(l.w, "%s: %s\n", l.what, text) }

func (l *lines) End() {}

// Bar draws a spinner, and a progress bar as soon as the number of items is known.
type Bar struct {
	w      io.Writer
	what   string
	bar    *progressbar.ProgressBar // nil while nothing is drawn
	counts string                   // the things that bar counts, once their number is known
}

// State draws the bar.
func (b *Bar) State(s State) {
	counts := ""
	if s.Total > 0 {
		counts = cmp.Or(s.What, "items")
	}
	if b.bar == nil || counts != "" && counts != b.counts {
		b.End()
		b.counts, b.bar = counts, b.make(s.Total)
	}
	text := fmt.Sprintf("%s: %s", b.what, s.Phase)
	for _, more := range []string{s.Detail, s.Waiting} {
		if more != "" {
			text += ", " + more
		}
	}
	b.bar.Describe(text)
	if b.counts != "" {
		b.bar.ChangeMax(max(s.Total, 1))
		_ = b.bar.Set(min(s.Done, s.Total)) // only fails beyond the maximum
	}
}

func (b *Bar) make(total int) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(b.w), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(
			100 * time.Millisecond,
		),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true),
	}
	if total <= 0 {
		return progressbar.NewOptions(-1, options...)
	}
	return progressbar.NewOptions(total, append(options, progressbar.OptionShowCount(), progressbar.OptionFullWidth())...)
}

// Note prints a line above the bar.
func (b *Bar) Note(text string) {
	b.End()
	fmt.Fprintf(b.w, "%s: %s\n", b.what, text)
}

// End removes the bar.
func (b *Bar) End() {
	if b.bar != nil {
		_ = b.bar.Finish() // fails only if the terminal was closed
		b.bar, b.counts = nil, ""
	}
}
