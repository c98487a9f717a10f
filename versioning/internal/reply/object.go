package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/rawitem"
)

// Object is the identity of a Kubernetes object.
type Object struct {
	APIVersion string
	Kind       string
	Namespace  string // empty for a cluster-scoped object
	Name       string
	UID        string // of the cluster; often empty
}

// Group returns the API group, empty for core.
func (o Object) Group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// ScanObject returns the identity of the object in the JSON raw. It fails if raw is not a JSON object, or if
// a member that it needs is not a string. Missing members are left empty.
func ScanObject(raw []byte) (Object, error) {
	if len(raw) == 0 {
		return Object{}, errors.New("is empty, want the JSON of an object")
	}
	var where identity
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

// SameObject reports whether a plugin's reply is certainly valid JSON and certainly the object that was sent. It reads
// only the member in which they differ. The object sent is the server's own and valid. If they
// differ in more than one member, which is rare, or in a member of the identity, ScanObject has to decide.
func SameObject(sent, returned []byte) bool {
	before := samePrefix(sent, returned)
	behind := sameSuffix(sent[before:], returned[before:])
	member, from, to := rawitem.Around(sent, before, len(sent)-behind)
	if member == nil {
		return false
	}
	changed := returned[:to+len(returned)-len(sent)]
	switch string(member) {
	case "apiVersion", "kind":
		return false
	case "metadata":
		want, wantEnd := scanMetadata(sent, from)
		got, gotEnd := scanMetadata(changed, from)
		return wantEnd == to && gotEnd == len(changed) &&
			bytes.Equal(want.namespace.of(sent), got.namespace.of(changed)) &&
			bytes.Equal(want.name.of(sent), got.name.of(changed))
	default:
		return rawitem.Valid(changed[from:])
	}
}

// samePrefix returns the length of the common prefix of a and b.
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

// sameSuffix returns the length of the common suffix of a and b.
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

// step is the number of bytes compared at once.
const step = 256

// span is the position of a value; zero if the value is missing.
type span struct{ from, to int }

func (s span) of(raw []byte) []byte { return raw[s.from:s.to] }

// identity holds the positions of the members that make an object's identity. Of members with the same name the last
// one counts.
type identity struct{ apiVersion, kind, metadata span }

// metadata holds the positions in an object's metadata.
type metadata struct{ namespace, name, uid span }

// scanMetadata finds the members in the object at at. It returns the position after the object, or -1 if there is none.
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

func (p identity) object(raw []byte) (Object, error) {
	var in metadata
	if at := p.metadata.from; at > 0 && string(p.metadata.of(raw)) != "null" {
		var end int
		if in, end = scanMetadata(raw, at); end < 0 {
			return Object{}, errors.New("metadata is not a JSON object")
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

// text decodes the string value into decoded; a null or missing value is the empty string.
func text(field string, value []byte, decoded *string) error {
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	if value[0] != '"' {
		return fmt.Errorf("%s is %s, want a string", field, hostapi.Clip(string(value)))
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
