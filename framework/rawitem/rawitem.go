package rawitem

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework/internal/rawjson"
)

// EachMember calls visit for each member of the object whose JSON raw is, in order; the member's value is raw[from:to].
// It is an error when raw is anything else than the JSON of one object.
func EachMember(raw []byte, visit func(name []byte, from, to int)) error {
	return rawjson.Object(raw, all(visit))
}

// Members is EachMember for an object that begins at raw[at]. It answers the position behind the object, or -1 when
// there is no right object there.
func Members(raw []byte, at int, visit func(name []byte, from, to int)) int {
	return rawjson.Members(raw, at, all(visit))
}

// all is the visit that goes on to the end.
func all(visit func(name []byte, from, to int)) rawjson.Visit {
	return func(name []byte, from, to int) bool {
		visit(name, from, to)
		return true
	}
}

// Around is the member of the object whose JSON raw is that holds raw[begin:end] in its value: its name, and its value at
// raw[from:to]. The name is nil when there is none. raw has to be right JSON; not all of it is looked at.
func Around(raw []byte, begin, end int) (name []byte, from, to int) {
	return rawjson.Around(raw, begin, end)
}

// Valid tells whether raw is right JSON, as encoding/json has it.
func Valid(raw []byte) bool { return rawjson.Valid(raw) }

// SetLabel is item with the label key set to value. item stays as it is. It has to be right JSON, as it is when it came from
// the server; not all of it is checked.
func SetLabel(item []byte, key, value string) ([]byte, error) {
	return setText(item, "labels", key, value)
}

// SetAnnotation is item with the annotation key set to value; all that SetLabel says holds.
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

// span is where a value stands in some JSON; zero when it is not there.
type span struct{ from, to int }

// find is where the member of the whole item stands; it has to be there.
func find(item []byte, name string) (span, error) {
	var found span
	if rawjson.FromBehind(item, func(member []byte, from, to int) bool { // of members of the same name the last one counts
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

// member is where a member of the object at in stands, nowhere if there is none.
func member(item []byte, in span, name string) (span, error) {
	var found span
	if Members(item, in.from, func(member []byte, from, to int) {
		if string(member) == name {
			found = span{from, to}
		}
	}) < 0 {
		return span{}, errors.New("is no JSON object")
	}
	return found, nil
}

// set is item with the member of the object at in, whose value stands at existing, or nowhere.
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
