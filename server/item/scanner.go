package item

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
)

// maxDepth is how deep objects and arrays may be nested. encoding/json has the same limit.
const maxDepth = 10000

// scanner walks over one JSON text. It keeps a position and never copies.
type scanner struct {
	data []byte
	pos  int
}

// object walks over an object and calls member for each key, with the scanner at the key's value.
// member must move the scanner past the value. Keys are passed without quotes, unescaped.
func (s *scanner) object(depth int, member func(key []byte) error) error {
	if depth > maxDepth {
		return s.errorf("objects nested deeper than %d", maxDepth)
	}
	if err := s.expect('{', "an object"); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.errorf("expected the key of an object")
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.expect(':', `":" after a key`); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.errorf(`expected "," or "}" in an object`)
		}
	}
}

// array walks over an array and calls element with the scanner at each element, past which it must
// move the scanner.
func (s *scanner) array(depth int, element func() error) error {
	if depth > maxDepth {
		return s.errorf("arrays nested deeper than %d", maxDepth)
	}
	if err := s.expect('[', "an array"); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return nil
		default:
			return s.errorf(`expected "," or "]" in an array`)
		}
	}
}

// skip moves past one value of any type and checks it.
func (s *scanner) skip(depth int) error {
	switch c := s.peek(); c {
	case '{':
		return s.object(depth, func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.array(depth, func() error { return s.skip(depth + 1) })
	case '"':
		_, _, err := s.quoted()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

// raw moves past one value and returns its bytes, which belong to the scanned text.
func (s *scanner) raw(depth int) ([]byte, error) {
	s.space()
	start := s.pos
	if err := s.skip(depth); err != nil {
		return nil, err
	}
	return s.data[start:s.pos:s.pos], nil
}

// null moves past a null if there is one.
func (s *scanner) null() (bool, error) {
	if s.peek() != 'n' {
		return false, nil
	}
	return true, s.literal("null")
}

// str reads a string or null, which is "".
func (s *scanner) str() (string, error) {
	if isNull, err := s.null(); isNull || err != nil {
		return "", err
	}
	if s.peek() != '"' {
		return "", s.errorf("expected a string")
	}
	text, err := s.text()
	return string(text), err
}

// stringMap reads an object of strings or null, which is nil. Null values are "".
func (s *scanner) stringMap(depth int) (map[string]string, error) {
	if isNull, err := s.null(); isNull || err != nil {
		return nil, err
	}
	var m map[string]string
	err := s.object(depth, func(key []byte) error {
		k := string(key)
		v, err := s.str()
		if err != nil {
			return err
		}
		if m == nil {
			m = map[string]string{}
		}
		m[k] = v
		return nil
	})
	return m, err
}

// text moves past a string and returns it unescaped; a string without escapes is not copied.
func (s *scanner) text() ([]byte, error) {
	inner, escaped, err := s.quoted()
	if err != nil || !escaped {
		return inner, err
	}
	var text string
	if err := json.Unmarshal(s.data[s.pos-len(inner)-2:s.pos], &text); err != nil {
		return nil, s.errorf("string: %v", err)
	}
	return []byte(text), nil
}

// quoted moves past a string and returns what is between the quotes, as it stands there.
func (s *scanner) quoted() (inner []byte, escaped bool, err error) {
	if err := s.expect('"', "a string"); err != nil {
		return nil, false, err
	}
	start := s.pos
	for {
		s.pos += plain(s.data[s.pos:])
		if s.pos >= len(s.data) {
			return nil, false, s.errorf("string does not end")
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[start : s.pos-1], escaped, nil
		case c < 0x20:
			return nil, false, s.errorf("control character in a string")
		}
		escaped = true
		if err := s.escape(); err != nil {
			return nil, false, err
		}
	}
}

// plain counts the bytes before the first quote, backslash or control character, eight at a time.
func plain(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// The lowest set high bit marks the first such byte: borrows only disturb the bytes above it.
		hits := ((quote-ones) & ^quote | (slash-ones) & ^slash | (w-ones*0x20) & ^w) & highs
		if hits != 0 {
			return n + bits.TrailingZeros64(hits)/8
		}
	}
	for n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= 0x20 {
		n++
	}
	return n
}

func (s *scanner) escape() error {
	if s.pos+1 >= len(s.data) {
		return s.errorf("string does not end")
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		if s.pos+6 > len(s.data) {
			return s.errorf("string does not end")
		}
		for _, c := range s.data[s.pos+2 : s.pos+6] {
			if !isDigit(c) && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return s.errorf(`invalid \u escape`)
			}
		}
		s.pos += 6
		return nil
	}
	return s.errorf("invalid escape")
}

func (s *scanner) literal(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.errorf("expected %s", word)
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) number() error {
	if s.at() == '-' {
		s.pos++
	}
	switch {
	case s.at() == '0':
		s.pos++
	case isDigit(s.at()):
		s.digits()
	default:
		return s.errorf("expected a value")
	}
	if s.at() == '.' {
		s.pos++
		if !s.digits() {
			return s.errorf("expected digits after the point of a number")
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.at(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.errorf("expected digits in the exponent of a number")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for isDigit(s.at()) {
		s.pos++
	}
	return s.pos > start
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// end checks that nothing but white space is left.
func (s *scanner) end() error {
	if s.space(); s.pos < len(s.data) {
		return s.errorf("text after the end of the value")
	}
	return nil
}

func (s *scanner) expect(c byte, what string) error {
	if s.peek() != c {
		return s.errorf("expected %s", what)
	}
	s.pos++
	return nil
}

// peek is the first byte after white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	return s.at()
}

func (s *scanner) at() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("invalid JSON at byte %d: %s", s.pos, fmt.Sprintf(format, args...))
}
