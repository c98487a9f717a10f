package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows how far a long step is: one line that is rewritten every
// second on a terminal, a plain line every half minute elsewhere.
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

// saw counts a line of "go build -v": a module downloaded or a package compiled.
func (p *progress) saw(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(line, "go: downloading ") {
		p.downloaded++
	} else {
		p.compiled++
	}
}

// finish ends the step with a last line.
func (p *progress) finish(err error) {
	close(p.stop)
	p.stopped.Wait()
	word := "done, "
	if err != nil {
		word = "failed, "
	}
	p.print(word, "\n")
}

func (p *progress) print(word, end string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%s: %s%d modules downloaded, %d packages compiled, %s",
		p.title, word, p.downloaded, p.compiled, time.Since(p.started).Round(time.Second))
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
