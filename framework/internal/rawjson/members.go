package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Visit is called for a member of an object with its name and its value, which is raw[from:to]. It reports whether to
// continue with the next member.
type Visit func(name []byte, from, to int) bool

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// Decoder returns a decoder of raw, which the caller must release. With the options AllowDuplicateNames and
// AllowInvalidUTF8 it accepts what encoding/json accepts.
func Decoder(raw []byte, opts ...jsontext.Options) (d *jsontext.Decoder, release func()) {
	d, _ = decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(raw), opts...)
	return d, func() { decoders.Put(d) }
}

// Members validates the JSON object that begins at raw[at] and visits its members in order. It returns the position
// after the object, or after the member at which visit returned false, or -1 if there is no valid object at that
// position.
func Members(raw []byte, at int, visit Visit) int {
	if at >= len(raw) || raw[at] != '{' {
		return -1
	}
	d, release := Decoder(raw[at:], jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	defer release()
	if _, err := d.ReadToken(); err != nil {
		return -1
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return -1
		}
		value, err := d.ReadValue()
		if err != nil {
			return -1
		}
		if end := at + int(d.InputOffset()); !visit(memberName(name), end-len(value), end) {
			return end
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return -1
	}
	return at + int(d.InputOffset())
}

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
	return jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\t' || raw[at] == '\r') {
		at++
	}
	return at
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

// Empty reports whether the valid object that begins at raw[at] has no members.
func Empty(raw []byte, at int) bool { return raw[skipSpace(raw, at+1)] == '}' }
