package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cleat-dev/cleat/framework/internal/rawjson"
)

// decodeObject decodes the JSON of an object like apimachinery, in a fraction of the time. It returns false for invalid
// or unusual input (invalid UTF-8, unpaired surrogates, deep nesting); apimachinery then decodes it or returns the
// error.
func decodeObject(raw []byte) (map[string]any, bool) {
	d := decoder{raw: raw}
	d.space()
	if d.peek() != '{' {
		return nil, false
	}
	object, ok := d.object(1)
	d.space()
	return object, ok && d.at == len(raw)
}

// maxDecodeDepth is the maximum nesting that decodeObject accepts.
const maxDecodeDepth = 200

// decoder decodes raw from position at on.
type decoder struct {
	raw []byte
	at  int
}

func (d *decoder) space() {
	for d.at < len(d.raw) {
		switch d.raw[d.at] {
		case ' ', '\n', '\t', '\r':
			d.at++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (d *decoder) peek() byte {
	if d.at < len(d.raw) {
		return d.raw[d.at]
	}
	return 0
}

// take skips spaces and then c, and reports whether c was there.
func (d *decoder) take(c byte) bool {
	d.space()
	if d.peek() != c {
		return false
	}
	d.at++
	return true
}

func (d *decoder) object(depth int) (map[string]any, bool) {
	d.at++
	object := map[string]any{}
	if d.take('}') {
		return object, true
	}
	for depth <= maxDecodeDepth {
		d.space()
		key, ok := d.text()
		if !ok || !d.take(':') {
			return nil, false
		}
		value, ok := d.value(depth)
		if !ok {
			return nil, false
		}
		object[key] = value
		if d.take('}') {
			return object, true
		}
		if !d.take(',') {
			return nil, false
		}
	}
	return nil, false
}

func (d *decoder) array(depth int) ([]any, bool) {
	d.at++
	array := []any{}
	if d.take(']') {
		return array, true
	}
	for depth <= maxDecodeDepth {
		value, ok := d.value(depth)
		if !ok {
			return nil, false
		}
		array = append(array, value)
		if d.take(']') {
			return array, true
		}
		if !d.take(',') {
			return nil, false
		}
	}
	return nil, false
}

func (d *decoder) value(depth int) (any, bool) {
	d.space()
	switch d.peek() {
	case '"':
		return boxed(d.text())
	case '{':
		return boxed(d.object(depth + 1))
	case '[':
		return boxed(d.array(depth + 1))
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	default:
		return d.number()
	}
}

func boxed[T any](value T, ok bool) (any, bool) { return value, ok }

func (d *decoder) word(word string) bool {
	if len(d.raw)-d.at < len(word) || string(d.raw[d.at:d.at+len(word)]) != word {
		return false
	}
	d.at += len(word)
	return true
}

// number decodes a number: an int64 if it is written as one and fits, otherwise a float64.
func (d *decoder) number() (any, bool) {
	from, whole := d.at, true
	if d.peek() == '-' {
		d.at++
	}
	digits := d.at
	if !d.digits() || d.raw[digits] == '0' && d.at > digits+1 {
		return nil, false
	}
	if d.peek() == '.' {
		d.at++
		whole = false
		if !d.digits() {
			return nil, false
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.at++
		whole = false
		if c := d.peek(); c == '+' || c == '-' {
			d.at++
		}
		if !d.digits() {
			return nil, false
		}
	}
	text := string(d.raw[from:d.at])
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// digits skips digits and reports whether there was at least one.
func (d *decoder) digits() bool {
	from := d.at
	for c := d.peek(); '0' <= c && c <= '9'; c = d.peek() {
		d.at++
	}
	return d.at > from
}

// text decodes a string.
func (d *decoder) text() (string, bool) {
	if d.peek() != '"' {
		return "", false
	}
	d.at++
	from := d.at
	d.plain()
	if d.peek() == '"' { // there are no escapes
		text := d.raw[from:d.at]
		d.at++
		return string(text), utf8.Valid(text)
	}
	var text strings.Builder
	text.Grow(d.toQuote(from))
	for {
		text.Write(d.raw[from:d.at])
		switch d.peek() {
		case '"':
			d.at++
			return text.String(), utf8.ValidString(text.String())
		case '\\':
			d.at++
			if !d.escape(&text) {
				return "", false
			}
		default: // a control character, or the end
			return "", false
		}
		from = d.at
		d.plain()
	}
}

// toQuote returns the distance from from to the end of the string.
func (d *decoder) toQuote(from int) int {
	for at := from; ; at++ {
		next := bytes.IndexByte(d.raw[at:], '"')
		if next < 0 {
			return len(d.raw) - from
		}
		at += next
		behind := at
		for behind > from && d.raw[behind-1] == '\\' {
			behind--
		}
		if (at-behind)%2 == 0 {
			return at - from
		}
	}
}

// plain skips to the next quote, backslash or control character.
func (d *decoder) plain() {
	raw, at := d.raw, d.at
	for at+8 <= len(raw) {
		if special := rawjson.Specials(binary.LittleEndian.Uint64(raw[at:])); special != 0 {
			d.at = at + bits.TrailingZeros64(special)/8
			return
		}
		at += 8
	}
	for at < len(raw) && raw[at] >= ' ' && raw[at] != '"' && raw[at] != '\\' {
		at++
	}
	d.at = at
}

// escape decodes the part of an escape sequence after the backslash.
func (d *decoder) escape(to *strings.Builder) bool {
	c := d.peek()
	d.at++
	switch c {
	case '"', '\\', '/':
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'r':
		c = '\r'
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'u':
		r, ok := d.codeUnit()
		if ok && utf16.IsSurrogate(r) {
			if !d.word(`\u`) {
				return false
			}
			var low rune
			low, ok = d.codeUnit()
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return false
			}
		}
		to.WriteRune(r)
		return ok
	default:
		return false
	}
	to.WriteByte(c)
	return true
}

// codeUnit decodes four hexadecimal digits.
func (d *decoder) codeUnit() (rune, bool) {
	if d.at+4 > len(d.raw) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(d.raw[d.at:d.at+4]), 16, 32)
	d.at += 4
	return rune(n), err == nil
}
