// Package tail cuts the output of work to its last lines. It imports nothing of ours.
package tail

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxLines is the number of lines that are kept.
	MaxLines = 20
	// MaxBytes is the length of the text that is kept.
	MaxBytes = 2048
)

// cut marks the beginning of a text that was longer.
const cut = "..."

// Lines returns the last lines of text, as valid UTF-8 and without line breaks at the end. If it had more than MaxLines
// lines or MaxBytes bytes, "..." marks where it was cut. To cut what was cut changes nothing.
func Lines(text string) string {
	text, shortened := strings.CutPrefix(text, cut)
	if last := len(text) - 4*MaxBytes; last > 0 { // the rest need not be looked at
		text, shortened = text[last:], true
	}
	text = strings.TrimRight(strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\r\n", "\n"), "\r\n")
	if text == "" {
		return ""
	}
	if from := len(text) - MaxBytes; from > 0 {
		for !utf8.RuneStart(text[from]) {
			from++
		}
		text, shortened = text[from:], true
	}
	for lines, at := 0, len(text); ; lines++ {
		if at = strings.LastIndexByte(text[:at], '\n'); at < 0 {
			break
		}
		if lines == MaxLines-1 {
			text, shortened = text[at:], true
			break
		}
	}
	if !shortened {
		return text
	}
	return cut + text
}
