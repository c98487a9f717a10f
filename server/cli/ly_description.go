package cli

import (
	"fmt"
	"io"
	"strings"
)

// description writes lines of the form "Key:  value", indented by sections. The values of one section are aligned.
// After the first error nothing more is written.
type description struct {
	w      io.Writer
	indent int
	failed error
}

// newDescription returns a description that writes to w.
func newDescription(w io.Writer) *description { return &description{w: w} }

// err returns the first error of writing.
func (d *description) err() error { return d.failed }

// line writes one line.
func (d *description) line(format string, args ...any) {
	if d.failed != nil {
		return
	}
	_, d.failed = fmt.Fprintln(d.w, strings.TrimRight(strings.Repeat("  ", d.indent)+fmt.Sprintf(format, args...), " "))
}

// gap writes an empty line.
func (d *description) gap() { d.line("") }

// pairs writes keys and values, aligned. A value of several lines goes on below itself.
func (d *description) pairs(pairs ...[2]string) {
	width := 0
	for _, pair := range pairs {
		width = max(width, len(pair[0]))
	}
	for _, pair := range pairs {
		for i, text := range strings.Split(pair[1], "\n") {
			key := pair[0] + ":"
			if i > 0 {
				key = ""
			}
			d.line("%-*s  %s", width+1, key, text)
		}
	}
}

// section writes a head and, further in, what body writes.
func (d *description) section(head string, body func()) {
	d.line("%s:", head)
	d.indented(1, body)
}

// indented writes what body writes, further in by levels.
func (d *description) indented(levels int, body func()) {
	d.indent += levels
	body()
	d.indent -= levels
}

// lines writes foreign text.
func (d *description) text(text string) {
	for line := range strings.Lines(text) {
		d.line("%s", strings.TrimRight(printable(line), "\n"))
	}
}
