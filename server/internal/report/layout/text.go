package layout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Count returns a number of things, such as "3 items".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// OrNone returns text, and "<none>" for an empty one.
func OrNone(text string) string { return cmp.Or(text, "<none>") }

// ListOr returns names separated by commas, and none if there are none.
func ListOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// KeyValues returns a map as lines of the form "key=value".
func KeyValues(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+m[key])
	}
	return OrNone(strings.Join(lines, "\n"))
}

// BoolOrAuto returns the text of an optional boolean.
func BoolOrAuto(b *bool) string {
	if b == nil {
		return "auto"
	}
	return fmt.Sprint(*b)
}

// NumberOrNone returns a number, and "<none>" for 0.
func NumberOrNone(n int) string {
	if n == 0 {
		return "<none>"
	}
	return strconv.Itoa(n)
}

// Mebibytes returns an amount of memory, and an empty text for 0.
func Mebibytes(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}

// Bytes returns a number of bytes in the largest unit of which there is one, such as "1.5 GiB".
func Bytes(bytes int64) string {
	value, unit := float64(bytes), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for unit < len(units)-1 && math.Abs(value) >= 1024 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// Printable replaces the characters of text that could control a terminal. It keeps line ends.
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

// OneLine returns text from outside as one line without control characters.
func OneLine(text string) string { return strings.Join(strings.Fields(Printable(text)), " ") }

// Abbreviate returns the first most of names, and how many more there are.
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

// Enumerate returns names for a sentence, such as "a, b and c", with the given word before the last.
func Enumerate(names []string, word string) string {
	const most = 5
	last := len(names) - 1
	if last == 0 || len(names) > most {
		return Abbreviate(names, most, ", ")
	}
	return Abbreviate(names[:last], most, ", ") + " " + word + " " + Abbreviate(names[last:], 1, "")
}

// Plural returns one for a single name, and more otherwise.
func Plural(names []string, one, more string) string {
	if len(names) == 1 {
		return one
	}
	return more
}

// IndentJSON returns JSON with indentation.
func IndentJSON(data []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return string(data)
	}
	return out.String()
}
