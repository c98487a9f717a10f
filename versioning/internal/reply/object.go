package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cleat-dev/cleat/framework/rawitem"
)

// Object is what makes a Kubernetes object that object.
type Object struct {
	APIVersion string
	Kind       string
	Namespace  string // empty for a cluster-scoped object
	Name       string
	UID        string // of the cluster; often empty
}

// Group is the API group, empty for core.
func (o Object) Group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// ScanObject finds the identity of the object whose JSON raw is. It fails when raw is no JSON object, or when
// what it looks for is there but is no string. What is not there is left empty.
func ScanObject(raw []byte) (Object, error) {
	if len(raw) == 0 {
		return Object{}, errors.New("is empty, want the JSON of an object")
	}
	var where places
	err := rawitem.EachMember(raw, func(name []byte, from, to int) {
		switch string(name) {
		case "apiVersion":
			where.apiVersion = span{from, to}
		case "kind":
			where.kind = span{from, to}
		case "metadata":
			where.metadata = span{from, to}
		}
	})
	if err != nil {
		return Object{}, err
	}
	return where.object(raw)
}

// SameObject tells whether what a plugin answered is surely right JSON and surely the object that it was asked about, with
// a look at nothing but the member in which they differ. What was sent is the server's own and right. When they
// differ in more than one member, which is seldom, or in one that the identity is in, ScanObject has to tell.
func SameObject(sent, answered []byte) bool {
	before := samePrefix(sent, answered)
	behind := sameSuffix(sent[before:], answered[before:])
	member, from, to := rawitem.Around(sent, before, len(sent)-behind)
	if member == nil {
		return false
	}
	changed := answered[:to+len(answered)-len(sent)]
	switch string(member) {
	case "apiVersion", "kind":
		return false
	case "metadata":
		want, wantEnd := scanMetadata(sent, from)
		got, gotEnd := scanMetadata(changed, from)
		return wantEnd == to && gotEnd == len(changed) &&
			bytes.Equal(want.namespace.of(sent), got.namespace.of(changed)) && bytes.Equal(want.name.of(sent), got.name.of(changed))
	default:
		return rawitem.Valid(changed[from:])
	}
}

// samePrefix is how many bytes a and b begin with that are the same.
func samePrefix(a, b []byte) int {
	n, same := min(len(a), len(b)), 0
	for same+step <= n && bytes.Equal(a[same:same+step], b[same:same+step]) {
		same += step
	}
	for same < n && a[same] == b[same] {
		same++
	}
	return same
}

// sameSuffix is how many bytes a and b end with that are the same.
func sameSuffix(a, b []byte) int {
	n, same := min(len(a), len(b)), 0
	for same+step <= n && bytes.Equal(a[len(a)-same-step:len(a)-same], b[len(b)-same-step:len(b)-same]) {
		same += step
	}
	for same < n && a[len(a)-same-1] == b[len(b)-same-1] {
		same++
	}
	return same
}

// step is how many bytes are compared at once.
const step = 256

// span is where a value stands; zero when it is not there.
type span struct{ from, to int }

func (s span) of(raw []byte) []byte { return raw[s.from:s.to] }

// places is where the members of an object stand that its identity is in. Of members of the same name the last one
// counts.
type places struct{ apiVersion, kind, metadata span }

// metadata is places in an object's metadata.
type metadata struct{ namespace, name, uid span }

// scanMetadata finds them in the object at at, and answers the position behind it, or -1 when it is none.
func scanMetadata(raw []byte, at int) (metadata, int) {
	var found metadata
	end := rawitem.Members(raw, at, func(member []byte, from, to int) {
		switch string(member) {
		case "namespace":
			found.namespace = span{from, to}
		case "name":
			found.name = span{from, to}
		case "uid":
			found.uid = span{from, to}
		}
	})
	return found, end
}

// object reads the identity.
func (p places) object(raw []byte) (Object, error) {
	var in metadata
	if at := p.metadata.from; at > 0 && string(p.metadata.of(raw)) != "null" {
		var end int
		if in, end = scanMetadata(raw, at); end < 0 {
			return Object{}, errors.New("metadata is no JSON object")
		}
	}
	var object Object
	for _, err := range [...]error{
		text("apiVersion", p.apiVersion.of(raw), &object.APIVersion),
		text("kind", p.kind.of(raw), &object.Kind),
		text("metadata.namespace", in.namespace.of(raw), &object.Namespace),
		text("metadata.name", in.name.of(raw), &object.Name),
		text("metadata.uid", in.uid.of(raw), &object.UID),
	} {
		if err != nil {
			return Object{}, err
		}
	}
	return object, nil
}

// text decodes the string that value is into decoded; a value that is null or not there is the empty one.
func text(field string, value []byte, decoded *string) error {
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	if value[0] != '"' {
		return fmt.Errorf("%s is %s, want a string", field, clip(value))
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		*decoded = string(inner)
		return nil
	}
	if err := json.Unmarshal(value, decoded); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// clip is value, shortened for an error message.
func clip(value []byte) string {
	const enough = 40
	if len(value) > enough {
		return strings.ToValidUTF8(string(value[:enough]), "") + "..."
	}
	return string(value)
}
