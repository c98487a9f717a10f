package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// fewFields is the number of fields up to which a linear search is faster than a map.
const fewFields = 64

// Fields are the members of one JSON object in their order, with their values as in the text.
type Fields []field

type field struct {
	key   string
	value []byte
}

// Get returns the value of a field, or nil if there is none.
func (f Fields) Get(key string) []byte {
	if i := f.index(key); i >= 0 {
		return f[i].value
	}
	return nil
}

func (f Fields) index(key string) int {
	return slices.IndexFunc(f, func(m field) bool { return m.key == key })
}

// Set sets the value of a field, which must be valid JSON.
func (f *Fields) Set(key string, value []byte) {
	if i := f.index(key); i >= 0 {
		(*f)[i].value = value
		return
	}
	*f = append(*f, field{key, value})
}

// Remove removes a field.
func (f *Fields) Remove(key string) {
	*f = slices.DeleteFunc(*f, func(m field) bool { return m.key == key })
}

// JSON returns the fields as one JSON object.
func (f Fields) JSON() []byte {
	var out bytes.Buffer
	f.write(&out, nil)
	return out.Bytes()
}

func (f Fields) write(out *bytes.Buffer, without []string) {
	out.WriteByte('{')
	first := true
	for _, m := range f {
		if slices.Contains(without, m.key) {
			continue
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(Quote(m.key))
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
}

// Split takes one level of a JSON object apart. The text must be valid JSON, as item.ParseMeta checks it; an empty
// text and null have no fields. If a key occurs twice, the last value counts.
func Split(raw []byte) (Fields, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, errors.New("want a JSON object")
	}
	var out Fields
	var seen map[string]int
	for pos := 1; ; {
		pos = skipSpace(raw, pos)
		if raw[pos] == '}' {
			return out, nil
		}
		if raw[pos] == ',' {
			pos = skipSpace(raw, pos+1)
		}
		end := skipValue(raw, pos)
		key := string(raw[pos+1 : end-1])
		if strings.ContainsRune(key, '\\') {
			if err := json.Unmarshal(raw[pos:end], &key); err != nil {
				return nil, err
			}
		}
		pos = skipSpace(raw, skipSpace(raw, end)+1) // past the colon
		end = skipValue(raw, pos)
		seen = out.add(seen, key, raw[pos:end:end])
		pos = end
	}
}

// add is Set during the reading of a level. seen has the positions of the fields once there are many, so that reading
// stays linear; a custom resource may have thousands.
func (f *Fields) add(seen map[string]int, key string, value []byte) map[string]int {
	if len(*f) < fewFields {
		f.Set(key, value)
		return nil
	}
	if seen == nil {
		seen = make(map[string]int, 2*len(*f))
		for i, m := range *f {
			seen[m.key] = i
		}
	}
	if i, ok := seen[key]; ok {
		(*f)[i].value = value
		return seen
	}
	seen[key] = len(*f)
	*f = append(*f, field{key, value})
	return seen
}

func skipSpace(raw []byte, pos int) int {
	for raw[pos] == ' ' || raw[pos] == '\n' || raw[pos] == '\t' || raw[pos] == '\r' {
		pos++
	}
	return pos
}

// skipValue returns the position after the value at pos of a valid JSON text.
func skipValue(raw []byte, pos int) int {
	switch raw[pos] {
	case '"':
		return skipString(raw, pos)
	case '{', '[':
		for depth := 0; ; pos++ {
			switch raw[pos] {
			case '"':
				pos = skipString(raw, pos) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return pos + 1
				}
			}
		}
	}
	for pos < len(raw) && !strings.ContainsRune(",}] \n\t\r", rune(raw[pos])) {
		pos++
	}
	return pos
}

func skipString(raw []byte, pos int) int {
	for pos++; ; {
		pos += bytes.IndexByte(raw[pos:], '"')
		slashes := 0
		for raw[pos-1-slashes] == '\\' {
			slashes++
		}
		pos++
		if slashes%2 == 0 {
			return pos
		}
	}
}

// Quote returns a text as JSON.
func Quote(text string) []byte {
	quoted, _ := json.Marshal(text) // cannot fail for a string
	return quoted
}

func quoteMap(m map[string]string) []byte {
	out, _ := json.Marshal(m) // cannot fail for strings
	return out
}
