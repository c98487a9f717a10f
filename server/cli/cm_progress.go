package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// state is how far an operation is.
type state struct {
	phase       string
	done, total int
	ended       bool
}

// display shows the states of what is waited for.
type display interface {
	state(state)
	note(string)
	end()
}

// newDisplay is a progress bar on a terminal, and a line for each phase anywhere else.
func newDisplay(w io.Writer, what string) display {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &bar{w: w, what: what}
	}
	return &lines{w: w, what: what}
}

// lines prints one line for each phase.
type lines struct {
	w           io.Writer
	what, phase string
}

func (l *lines) state(s state) {
	if s.phase == l.phase {
		return
	}
	l.phase = s.phase
	fmt.Fprintf(l.w, "%s: %s\n", l.what, s.phase)
}

func (l *lines) note(text string) { fmt.Fprintf(l.w, "%s: %s\n", l.what, text) }

func (l *lines) end() {}

// bar is a spinner, and a progress bar as soon as the number of items is known.
type bar struct {
	w       io.Writer
	what    string
	bar     *progressbar.ProgressBar
	counted bool
}

func (b *bar) state(s state) {
	if b.bar == nil || s.total > 0 && !b.counted {
		b.end()
		b.counted = s.total > 0
		b.bar = b.make(s.total)
	}
	b.bar.Describe(fmt.Sprintf("%s: %s", b.what, s.phase))
	if b.counted {
		b.bar.ChangeMax(max(s.total, 1))
		_ = b.bar.Set(min(s.done, s.total)) // only fails beyond the maximum
	}
}

func (b *bar) make(total int) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(b.w), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true),
	}
	if total <= 0 {
		return progressbar.NewOptions(-1, options...)
	}
	return progressbar.NewOptions(total, append(options, progressbar.OptionShowCount(), progressbar.OptionFullWidth())...)
}

func (b *bar) note(text string) {
	b.end()
	fmt.Fprintf(b.w, "%s: %s\n", b.what, text)
}

func (b *bar) end() {
	if b.bar != nil {
		_ = b.bar.Finish() // a terminal that is gone shows nothing anyway
		b.bar, b.counted = nil, false
	}
}
