package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
)

// Visit is called for a member of an object with its name and its value, which is raw[from:to]. It reports whether to
// continue with the next member.
type Visit func(name []byte, from, to int) bool

// Members validates the JSON object that begins at raw[at] and visits its members in order. It returns the position
// after the object, or after the member at which visit returned false, or -1 if there is no valid object at that
// position.
func Members(raw []byte, at int, visit Visit) int { return skipObject(raw, at, 1, visit) }

// Object is Members for the whole of raw, which may have space around the object; visit must always return true. Its
// errors begin with "is not JSON".
func Object(raw []byte, visit Visit) error {
	end := Members(raw, skipSpace(raw, 0), visit)
	if end < 0 || skipSpace(raw, end) != len(raw) {
		if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
			return fmt.Errorf("is not JSON: %w", err)
		}
		return errNoObject
	}
	return nil
}

var errNoObject = errors.New("is not a JSON object")

// Valid reports whether raw is valid JSON.
func Valid(raw []byte) bool {
	end := skipValue(raw, skipSpace(raw, 0), 0)
	return end >= 0 && skipSpace(raw, end) == len(raw)
}

// The skip functions return the position after the value that begins at raw[at], or -1 if the value is invalid. They
// accept what encoding/json accepts.

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\t' || raw[at] == '\r') {
		at++
	}
	return at
}

// maxDepth is the maximum nesting of objects and arrays; encoding/json has the same limit.
const maxDepth = 10_000

func skipObject(raw []byte, at, depth int, visit Visit) int {
	if at >= len(raw) || raw[at] != '{' || depth > maxDepth {
		return -1
	}
	if at = skipSpace(raw, at+1); at < len(raw) && raw[at] == '}' {
		return at + 1
	}
	for {
		from := at
		if at = skipString(raw, at); at < 0 {
			return -1
		}
		key := raw[from:at]
		if at = skipSpace(raw, at); at >= len(raw) || raw[at] != ':' {
			return -1
		}
		from = skipSpace(raw, at+1)
		if at = skipValue(raw, from, depth); at < 0 {
			return -1
		}
		if visit != nil && !visit(memberName(key), from, at) {
			return at
		}
		if at = skipSpace(raw, at); at >= len(raw) {
			return -1
		}
		switch raw[at] {
		case ',':
			at = skipSpace(raw, at+1)
		case '}':
			return at + 1
		default:
			return -1
		}
	}
}

// memberName returns the name in a quoted key.
func memberName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // it is a string
	return []byte(name)
}

func skipArray(raw []byte, at, depth int) int {
	if depth > maxDepth {
		return -1
	}
	if at = skipSpace(raw, at+1); at < len(raw) && raw[at] == ']' {
		return at + 1
	}
	for {
		if at = skipValue(raw, at, depth); at < 0 {
			return -1
		}
		if at = skipSpace(raw, at); at >= len(raw) {
			return -1
		}
		switch raw[at] {
		case ',':
			at = skipSpace(raw, at+1)
		case ']':
			return at + 1
		default:
			return -1
		}
	}
}

func skipValue(raw []byte, at, depth int) int {
	if at >= len(raw) {
		return -1
	}
	switch raw[at] {
	case '"':
		return skipString(raw, at)
	case '{':
		return skipObject(raw, at, depth+1, nil)
	case '[':
		return skipArray(raw, at, depth+1)
	case 't':
		return skipWord(raw, at, "true")
	case 'f':
		return skipWord(raw, at, "false")
	case 'n':
		return skipWord(raw, at, "null")
	default:
		return skipNumber(raw, at)
	}
}

func skipWord(raw []byte, at int, word string) int {
	if len(raw)-at < len(word) || string(raw[at:at+len(word)]) != word {
		return -1
	}
	return at + len(word)
}

func skipNumber(raw []byte, at int) int {
	if raw[at] == '-' {
		at++
	}
	from := at
	if at = skipDigits(raw, at); at < 0 || raw[from] == '0' && at > from+1 {
		return -1
	}
	if at < len(raw) && raw[at] == '.' {
		if at = skipDigits(raw, at+1); at < 0 {
			return -1
		}
	}
	if at < len(raw) && (raw[at] == 'e' || raw[at] == 'E') {
		if at++; at < len(raw) && (raw[at] == '+' || raw[at] == '-') {
			at++
		}
		at = skipDigits(raw, at)
	}
	return at
}

// skipDigits requires at least one digit.
func skipDigits(raw []byte, at int) int {
	from := at
	for at < len(raw) && '0' <= raw[at] && raw[at] <= '9' {
		at++
	}
	if at == from {
		return -1
	}
	return at
}

func skipString(raw []byte, at int) int {
	if at >= len(raw) || raw[at] != '"' {
		return -1
	}
	for at++; ; {
		for at+8 <= len(raw) {
			special := Specials(binary.LittleEndian.Uint64(raw[at:]))
			if special != 0 {
				at += bits.TrailingZeros64(special) / 8
				break
			}
			at += 8
		}
		if at >= len(raw) {
			return -1
		}
		switch c := raw[at]; {
		case c == '"':
			return at + 1
		case c == '\\':
			if at = skipEscape(raw, at); at < 0 {
				return -1
			}
		case c < ' ':
			return -1
		default:
			at++
		}
	}
}

// Specials marks the quotes, backslashes and control characters among eight bytes of a string, in the highest bit of
// each byte. The lowest mark is exact; the marks above it may be wrong.
func Specials(eight uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^ones*'"', eight^ones*'\\'
	return ((quote-ones)&^quote | (backslash-ones)&^backslash | (eight-ones*' ')&^eight) & highs
}

func skipEscape(raw []byte, at int) int {
	if at+1 >= len(raw) {
		return -1
	}
	switch raw[at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 2
	case 'u':
		if at+6 > len(raw) {
			return -1
		}
		for _, c := range raw[at+2 : at+6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return -1
			}
		}
		return at + 6
	default:
		return -1
	}
}

// Empty reports whether the valid object that begins at raw[at] has no members.
func Empty(raw []byte, at int) bool { return raw[skipSpace(raw, at+1)] == '}' }
