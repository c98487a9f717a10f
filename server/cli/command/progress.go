package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// state is how far an operation is.
type State struct {
	Phase       string
	Done, Total int
	Ended       bool
}

// display shows the states of what is waited for.
type Progress interface {
	State(State)
	Note(string)
	End()
}

// newDisplay is a progress bar on a terminal, and a line for each phase anywhere else.
func NewProgress(w io.Writer, what string) Progress {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &Bar{w: w, what: what}
	}
	return &lines{w: w, what: what}
}

// lines prints one line for each phase.
type lines struct {
	w           io.Writer
	what, phase string
}

func (l *lines) State(s State) {
	if s.Phase == l.phase {
		return
	}
	l.phase = s.Phase
	fmt.Fprintf(l.w, "%s: %s\n", l.what, s.Phase)
}

func (l *lines) Note(text string) { fmt.Fprintf(l.w, "%s: %s\n", l.what, text) }

func (l *lines) End() {}

// bar is a spinner, and a progress bar as soon as the number of items is known.
type Bar struct {
	w       io.Writer
	what    string
	bar     *progressbar.ProgressBar
	counted bool
}

func (b *Bar) State(s State) {
	if b.bar == nil || s.Total > 0 && !b.counted {
		b.End()
		b.counted = s.Total > 0
		b.bar = b.make(s.Total)
	}
	b.bar.Describe(fmt.Sprintf("%s: %s", b.what, s.Phase))
	if b.counted {
		b.bar.ChangeMax(max(s.Total, 1))
		_ = b.bar.Set(min(s.Done, s.Total)) // only fails beyond the maximum
	}
}

func (b *Bar) make(total int) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(b.w), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true),
	}
	if total <= 0 {
		return progressbar.NewOptions(-1, options...)
	}
	return progressbar.NewOptions(total, append(options, progressbar.OptionShowCount(), progressbar.OptionFullWidth())...)
}

func (b *Bar) Note(text string) {
	b.End()
	fmt.Fprintf(b.w, "%s: %s\n", b.what, text)
}

func (b *Bar) End() {
	if b.bar != nil {
		_ = b.bar.Finish() // a terminal that is gone shows nothing anyway
		b.bar, b.counted = nil, false
	}
}
