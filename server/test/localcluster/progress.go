package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows the progress of a long step: on a terminal in a line that is
// updated every second, and elsewhere in a new line every half minute.
type progress struct {
	out      io.Writer
	title    string
	terminal bool
	started  time.Time
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu         sync.Mutex
	downloaded int
	compiled   int
}

func newProgress(out io.Writer, title string) *progress {
	p := &progress{out: out, title: title, terminal: isTerminal(out), started: time.Now(), stop: make(chan struct{})}
	every := 30 * time.Second
	if p.terminal {
		every = time.Second
	} else {
		fmt.Fprintf(out, "%s\n", title)
	}
	p.stopped.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.print("", "")
			}
		}
	})
	return p
}

// count counts a line of "go build -v": a downloaded module or a compiled package.
func (p *progress) count(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(line, "go: downloading ") {
		p.downloaded++
	} else {
		p.compiled++
	}
}

// finish prints a last line with the result.
func (p *progress) finish(err error) {
	close(p.stop)
	p.stopped.Wait()
	result := "done, "
	if err != nil {
		result = "failed, "
	}
	p.print(result, "\n")
}

func (p *progress) print(result, end string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%s: %s%d modules downloaded, %d packages compiled, %s",
		p.title, result, p.downloaded, p.compiled, time.Since(p.started).Round(time.Second))
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K%s", text, end)
	} else {
		fmt.Fprintf(p.out, "%s\n", text)
	}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
