package layout

import (
	"fmt"
	"io"
	"strings"
)

// Description writes lines of the form "Key:  value", indented by sections. The values of one section are aligned.
// After the first error nothing more is written.
type Description struct {
	w      io.Writer
	indent int
	failed error
}

// NewDescription returns a description that writes to w.
func NewDescription(w io.Writer) *Description { return &Description{w: w} }

// Err returns the first error of writing.
func (d *Description) Err() error { return d.failed }

// Line writes one line.
func (d *Description) Line(format string, args ...any) {
	if d.failed != nil {
		return
	}
	_, d.failed = fmt.Fprintln(d.w, strings.TrimRight(strings.Repeat("  ", d.indent)+fmt.Sprintf(format, args...), " "))
}

// Gap writes an empty line.
func (d *Description) Gap() { d.Line("") }

// Pairs writes keys and values, aligned. A value may have several lines.
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

// Section writes a heading, and indents what body writes.
func (d *Description) Section(head string, body func()) {
	d.Line("%s:", head)
	d.Indented(1, body)
}

// Indented indents what body writes by the given number of levels.
func (d *Description) Indented(levels int, body func()) {
	d.indent += levels
	body()
	d.indent -= levels
}

// Text writes text from outside, line by line.
func (d *Description) Text(text string) {
	for line := range strings.Lines(text) {
		d.Line("%s", strings.TrimRight(Printable(line), "\n"))
	}
}
