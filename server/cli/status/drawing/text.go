package drawing

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// writer writes text and keeps the first error.
type writer struct {
	w      io.Writer
	failed error
}

func (w *writer) line(format string, args ...any) {
	if w.failed == nil {
		_, w.failed = fmt.Fprintf(w.w, format+"\n", args...)
	}
}

// safe returns a name from a manifest without characters that control a terminal.
func safe(text string) string { return layout.OneLine(text) }

// short returns text with at most the given number of characters.
func short(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// xmlText returns text for an element or an attribute.
func xmlText(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a builder does not fail
	return out.String()
}

// dotText returns a quoted string of Graphviz.
func dotText(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// mermaidText returns text for a quoted string of Mermaid, in which anything but the simplest characters is a code.
func mermaidText(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" -./:,()", r), r > '~':
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, "#%d;", r)
		}
	}
	return out.String()
}
