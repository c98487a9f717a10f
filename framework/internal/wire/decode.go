package wire

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cleat-dev/cleat/framework/internal/rawjson"
)

// decodeObject decodes the JSON of an object like apimachinery, in a fraction of the time. It returns false for invalid
// or unusual input (invalid UTF-8, unpaired surrogates); apimachinery then decodes it or returns the error.
func decodeObject(raw []byte) (map[string]any, bool) {
	d, release := rawjson.Decoder(raw, jsontext.AllowDuplicateNames(true))
	defer release()
	if d.PeekKind() != '{' {
		return nil, false
	}
	object, err := readObject(d)
	return object, err == nil && len(bytes.TrimSpace(raw[d.InputOffset():])) == 0
}

func readObject(d *jsontext.Decoder) (map[string]any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	object := map[string]any{}
	for d.PeekKind() != '}' {
		name, err := readText(d)
		if err != nil {
			return nil, err
		}
		if object[name], err = readValue(d); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return object, err
}

func readArray(d *jsontext.Decoder) ([]any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	array := []any{}
	for d.PeekKind() != ']' {
		value, err := readValue(d)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := d.ReadToken()
	return array, err
}

func readValue(d *jsontext.Decoder) (any, error) {
	switch d.PeekKind() {
	case '{':
		return readObject(d)
	case '[':
		return readArray(d)
	case '"':
		return readText(d)
	case '0':
		return readNumber(d)
	}
	token, err := d.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return nil, err
	}
	return token.Bool(), nil
}

// readNumber reads a number: an int64 if it is written as one and fits, otherwise a float64.
func readNumber(d *jsontext.Decoder) (any, error) {
	text, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n, nil
	}
	return strconv.ParseFloat(string(text), 64)
}

// readText reads a string. It unquotes the common escapes itself, because jsontext looks at each byte to do so.
func readText(d *jsontext.Decoder) (string, error) {
	quoted, err := d.ReadValue()
	if err != nil {
		return "", err
	}
	rest := quoted[1 : len(quoted)-1]
	at := bytes.IndexByte(rest, '\\')
	if at < 0 {
		return string(rest), nil
	}
	var text strings.Builder
	text.Grow(len(rest))
	for ; at >= 0; at = bytes.IndexByte(rest, '\\') {
		text.Write(rest[:at])
		switch c := rest[at+1]; c {
		case '"', '\\', '/':
			text.WriteByte(c)
		case 'n':
			text.WriteByte('\n')
		case 't':
			text.WriteByte('\t')
		default:
			unquoted, err := jsontext.AppendUnquote(nil, quoted)
			return string(unquoted), err
		}
		rest = rest[at+2:]
	}
	text.Write(rest)
	return text.String(), nil
}
