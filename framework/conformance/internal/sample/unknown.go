package sample

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// UsualOwner is the name of the Backup or Restore of most calls.
const UsualOwner = "nightly"

// OtherOwner is the name of the Backup or Restore of another run.
const OtherOwner = "other-run"

// UnknownKey is a field that no plugin knows.
const UnknownKey = "conformanceUnknown"

// Unknown returns a value for UnknownKey. Its number cannot be represented as a float64.
func Unknown() map[string]any {
	return map[string]any{"list": []any{int64(1), 2.5, nil, "text", true}, "number": json.Number("9007199254740993"),
		"object": map[string]any{"empty": map[string]any{}}}
}

// SameJSON reports whether two JSON texts have the same value. Numbers are compared as they are written.
func SameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return decodeNumbers(a, &x) == nil && decodeNumbers(b, &y) == nil && reflect.DeepEqual(x, y)
}

// decodeNumbers decodes JSON and keeps numbers as they are written.
func decodeNumbers(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return decoder.Decode(into)
}
