package item

import (
	"bytes"
	"encoding/json"

	kjson "sigs.k8s.io/json"
)

// ParseForeign is ParseMeta for an object that anybody may have written, such as one of an archive. It refuses what
// decoders read differently: members of the same name, of which some decoders take the last and the API server merges
// them; text that is not UTF-8; and numbers that the API server cannot represent. The error names the member.
func ParseForeign(raw []byte) (Meta, error) { return parseMeta(raw, true) }

// DecodeForeign decodes an object that ParseForeign accepts, with its numbers as they are.
func DecodeForeign(raw []byte) (map[string]any, error) {
	if _, err := ParseForeign(raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var object map[string]any
	err := d.Decode(&object)
	return object, err
}

// Unmarshal decodes a part of an object that ParseForeign accepts as the API server does: names of fields are those of
// the tags, exactly. In contrast to it, encoding/json takes "Spec" for "spec".
func Unmarshal(raw []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}
