package layout

import (
	"fmt"
	"io"
	"strings"
)

// description writes lines of the form "Key:  value", indented by sections. The values of one section are aligned.
// After the first error nothing more is written.
type Description struct {
	w      io.Writer
	indent int
	failed error
}

// newDescription returns a description that writes to w.
func NewDescription(w io.Writer) *Description { return &Description{w: w} }

// err returns the first error of writing.
func (d *Description) Err() error { return d.failed }

// line writes one line.
func (d *Description) Line(format string, args ...any) {
	if d.failed != nil {
		return
	}
	_, d.failed = fmt.Fprintln(d.w, strings.TrimRight(strings.Repeat("  ", d.indent)+fmt.Sprintf(format, args...), " "))
}

// gap writes an empty line.
func (d *Description) Gap() { d.Line("") }

// pairs writes keys and values, aligned. A value of several lines goes on below itself.
func (d *Description) Pairs(pairs ...[2]string) {
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
			d.Line("%-*s  %s", width+1, key, text)
		}
	}
}

// section writes a head and, further in, what body writes.
func (d *Description) Section(head string, body func()) {
	d.Line("%s:", head)
	d.Indented(1, body)
}

// indented writes what body writes, further in by levels.
func (d *Description) Indented(levels int, body func()) {
	d.indent += levels
	body()
	d.indent -= levels
}

// lines writes foreign text.
func (d *Description) Text(text string) {
	for line := range strings.Lines(text) {
		d.Line("%s", strings.TrimRight(Printable(line), "\n"))
	}
}
