package reference

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// step is one step of a path: a key, or a wildcard.
type step string

const (
	eachElement step = "[*]"
	eachValue   step = "*"
)

func (s step) wildcard() bool { return s == eachElement || s == eachValue }

// word is a key that needs no quotes in a path.
var word = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func parsePath(text string) ([]step, error) {
	if text == "" {
		return nil, errors.New("it is empty")
	}
	var steps []step
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, string(eachElement)):
			steps, rest = append(steps, eachElement), rest[len(eachElement):]
		case rest[0] == '[':
			quoted, err := strconv.QuotedPrefix(rest[1:])
			if err != nil || !strings.HasPrefix(rest[1+len(quoted):], "]") {
				return nil, fmt.Errorf(`want [*] or ["key"] at %q`, rest)
			}
			key, err := strconv.Unquote(quoted)
			if err != nil || quoted[0] != '"' || step(key).wildcard() {
				return nil, fmt.Errorf(`want [*] or ["key"] at %q`, rest)
			}
			steps, rest = append(steps, step(key)), rest[len(quoted)+2:]
		default:
			if len(steps) > 0 {
				after, dot := strings.CutPrefix(rest, ".")
				if !dot {
					return nil, fmt.Errorf(`want "." or "[" at %q`, rest)
				}
				rest = after
			}
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			key := step(rest[:end])
			if key != eachValue && !word.MatchString(string(key)) {
				return nil, fmt.Errorf(`%q is not a key; write other keys than words as ["key"]`, key)
			}
			steps, rest = append(steps, key), rest[end:]
		}
	}
	return steps, nil
}

// label returns a key as it is written in a path.
func label(key string) string {
	if word.MatchString(key) {
		return key
	}
	return "[" + strconv.Quote(key) + "]"
}

// appendLabel appends the label of a key to a path.
func appendLabel(path []byte, label string) []byte {
	if len(path) > 0 && label[0] != '[' {
		path = append(path, '.')
	}
	return append(path, label...)
}
