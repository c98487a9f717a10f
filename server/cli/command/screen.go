package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen draws lines on a terminal over those that it has drawn before.
type Screen struct {
	w     io.Writer
	size  func() (width, height int)
	drawn []string // lines on the terminal
}

// NewScreen returns a screen on w, which has the given number of columns and lines.
func NewScreen(w io.Writer, size func() (width, height int)) *Screen {
	return &Screen{w: w, size: size}
}

// ScreenOn returns a screen on w. It returns false if w is no terminal.
func ScreenOn(w io.Writer) (*Screen, bool) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, false
	}
	return NewScreen(w, func() (width, height int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}), true
}

// Draw draws lines, cut to the size of the terminal.
func (s *Screen) Draw(lines []string) error {
	width, height := s.size()
	var out strings.Builder
	if up := rows(s.drawn, width); up > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", up)
	}
	if fit := max(3, height-1); len(lines) > fit {
		lines = append(lines[:fit-1:fit-1], fmt.Sprintf("... and %d more", len(lines)-fit+1))
	}
	s.drawn = s.drawn[:0]
	for _, line := range lines {
		line = cut(line, width)
		s.drawn = append(s.drawn, line)
		out.WriteString("\r" + line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	_, err := io.WriteString(s.w, out.String())
	return err
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
