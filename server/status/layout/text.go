package layout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// count is a number of things, e.g. "3 items".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func OrNone(text string) string { return cmp.Or(text, "<none>") }

// listOr is a list of names.
func ListOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// keyValues is a map as lines of "key=value".
func KeyValues(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+m[key])
	}
	return OrNone(strings.Join(lines, "\n"))
}

// boolOrAuto is a switch that may be left open.
func BoolOrAuto(b *bool) string {
	if b == nil {
		return "auto"
	}
	return fmt.Sprint(*b)
}

// numberOrNone is a number that has a meaning unless it is 0.
func NumberOrNone(n int) string {
	if n == 0 {
		return "<none>"
	}
	return strconv.Itoa(n)
}

// mebibytes is an amount of memory; 0 is unknown.
func Mebibytes(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}

// printable is foreign text without what a terminal would take for a command. Line ends stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}

// oneLine is foreign text in a cell of a table.
func OneLine(text string) string { return strings.Join(strings.Fields(Printable(text)), " ") }

// abbreviate are the first few of names.
func Abbreviate(names []string, most int, separator string) string {
	safe := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		safe = append(safe, OneLine(name))
	}
	text := strings.Join(safe, separator)
	if left := len(names) - most; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// enumerate are names in a sentence: "a, b and c".
func Enumerate(names []string, word string) string {
	const most = 5
	last := len(names) - 1
	if last == 0 || len(names) > most {
		return Abbreviate(names, most, ", ")
	}
	return Abbreviate(names[:last], most, ", ") + " " + word + " " + Abbreviate(names[last:], 1, "")
}

func Plural(names []string, one, more string) string {
	if len(names) == 1 {
		return one
	}
	return more
}

// indentJSON is JSON as people read it.
func IndentJSON(data []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return string(data)
	}
	return out.String()
}
