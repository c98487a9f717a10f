package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/cleat-dev/cleat/framework/internal/rawjson"
)

// appendValue appends the JSON of value as encoding/json does, without its escapes for HTML: members are sorted. It
// handles the types in items; it encodes other types with encoding/json and returns its errors.
func appendValue(to []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case map[string]any:
		return appendObject(to, value)
	case []any:
		return appendArray(to, value)
	case string:
		return rawjson.AppendText(to, value), nil
	case int64:
		return strconv.AppendInt(to, value, 10), nil
	case bool:
		return strconv.AppendBool(to, value), nil
	case nil:
		return append(to, "null"...), nil
	default:
		var encoded bytes.Buffer
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			return nil, err
		}
		return append(to, bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))...), nil
	}
}

func appendObject(to []byte, object map[string]any) ([]byte, error) {
	if object == nil {
		return append(to, "null"...), nil
	}
	var few [16]string
	names := few[:0]
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	to = append(to, '{')
	var err error
	for i, name := range names {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(rawjson.AppendText(to, name), ':')
		if to, err = appendValue(to, object[name]); err != nil {
			return nil, err
		}
	}
	return append(to, '}'), nil
}

func appendArray(to []byte, array []any) ([]byte, error) {
	if array == nil {
		return append(to, "null"...), nil
	}
	to = append(to, '[')
	var err error
	for i, value := range array {
		if i > 0 {
			to = append(to, ',')
		}
		if to, err = appendValue(to, value); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}
