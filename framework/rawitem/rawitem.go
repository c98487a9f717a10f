package rawitem

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework/internal/rawjson"
)

// EachMember calls visit for each member of the JSON object raw, in order; the member's value is raw[from:to]. It
// returns an error if raw is not one valid JSON object.
func EachMember(raw []byte, visit func(name []byte, from, to int)) error {
	return rawjson.Object(raw, all(visit))
}

// Members is EachMember for an object that begins at raw[at]. It returns the position after the object, or -1 if there
// is no valid object at that position.
func Members(raw []byte, at int, visit func(name []byte, from, to int)) int {
	return rawjson.Members(raw, at, all(visit))
}

// all returns a Visit that continues to the last member.
func all(visit func(name []byte, from, to int)) rawjson.Visit {
	return func(name []byte, from, to int) bool {
		visit(name, from, to)
		return true
	}
}

// Around returns the member of the JSON object raw whose value contains raw[begin:end]: its name, and its value
// raw[from:to]. The name is nil if there is no such member. raw must be valid JSON; Around does not read all of it.
func Around(raw []byte, begin, end int) (name []byte, from, to int) {
	return rawjson.Around(raw, begin, end)
}

// Valid reports whether raw is valid JSON, as json.Valid does.
func Valid(raw []byte) bool { return rawjson.Valid(raw) }

// SetLabel returns a copy of item with the label key set to value. item must be valid JSON, as items from the server
// are; SetLabel does not check all of it.
func SetLabel(item []byte, key, value string) ([]byte, error) {
	return setText(item, "labels", key, value)
}

// SetAnnotation returns a copy of item with the annotation key set to value, as SetLabel does for a label.
func SetAnnotation(item []byte, key, value string) ([]byte, error) {
	return setText(item, "annotations", key, value)
}

// setText sets a member of one of the maps in metadata.
func setText(item []byte, field, key, value string) ([]byte, error) {
	metadata, err := find(item, "metadata")
	if err != nil {
		return nil, fmt.Errorf("item %w", err)
	}
	quoted := rawjson.AppendText(nil, value)
	fields, err := member(item, metadata, field)
	if err != nil {
		return nil, fmt.Errorf("metadata of the item %w", err)
	}
	if fields == (span{}) || string(item[fields.from:fields.to]) == "null" {
		object := append(append(append(append([]byte{'{'}, rawjson.AppendText(nil, key)...), ':'), quoted...), '}')
		return set(item, metadata, fields, field, object), nil
	}
	existing, err := member(item, fields, key)
	if err != nil {
		return nil, fmt.Errorf("metadata.%s of the item %w", field, err)
	}
	return set(item, fields, existing, key, quoted), nil
}

// span is the position of a value in some JSON; it is zero if there is no value.
type span struct{ from, to int }

// find returns the value of a member of the whole item, which must exist.
func find(item []byte, name string) (span, error) {
	var found span
	if rawjson.Backward(item, func(member []byte, from, to int) bool {
		// the last of several members of the same name counts
		if string(member) == name {
			found = span{from, to}
		}
		return found == span{}
	}) {
		return found, nil
	}
	if err := rawjson.Object(item, func([]byte, int, int) bool { return true }); err != nil {
		return span{}, err
	}
	return span{}, fmt.Errorf("has no %s", name)
}

// member returns the value of a member of the object at in; it is zero if there is no such member.
func member(item []byte, in span, name string) (span, error) {
	var found span
	if Members(item, in.from, func(member []byte, from, to int) {
		if string(member) == name {
			found = span{from, to}
		}
	}) < 0 {
		return span{}, errors.New("is not a JSON object")
	}
	return found, nil
}

// set returns a copy of item with a member of the object at in set to value. existing is its present value, if any.
func set(item []byte, in, existing span, name string, value []byte) []byte {
	if existing != (span{}) {
		return slices.Concat(item[:existing.from], value, item[existing.to:])
	}
	first := rawjson.AppendText(nil, name)
	first = append(append(first, ':'), value...)
	if !rawjson.Empty(item, in.from) {
		first = append(first, ',')
	}
	return slices.Concat(item[:in.from+1], first, item[in.from+1:])
}
