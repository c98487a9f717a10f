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
	where, err := locate(raw, 0)
	if err != nil {
		return Object{}, err
	}
	return where.object(raw)
}

// ScanBoth is ScanObject for what a plugin was asked about and for what it answered. What was sent is the server's own and
// known to be JSON: what the answer begins with that was sent is not checked again. An error says whose it is.
func ScanBoth(sent, answered []byte) (want, got Object, err error) {
	same := samePrefix(sent, answered)
	there, err := locate(answered, same)
	if err == nil {
		got, err = there.object(answered)
	}
	if err != nil {
		return want, got, fmt.Errorf("item %w", err)
	}
	where := there
	// Most answers differ in metadata for the first time, and nothing that counts stands behind it.
	if at := there.metadata.from; at == 0 || at > same || at < max(there.apiVersion.to, there.kind.to) {
		where, err = locate(sent, len(sent))
	}
	if err == nil {
		want, err = where.object(sent)
	}
	if err != nil {
		return want, got, fmt.Errorf("the item that the action was asked about %w", err)
	}
	return want, got, nil
}

// samePrefix is how many bytes a and b begin with that are the same.
func samePrefix(a, b []byte) int {
	const step = 256
	n, same := min(len(a), len(b)), 0
	for same+step <= n && bytes.Equal(a[same:same+step], b[same:same+step]) {
		same += step
	}
	for same < n && a[same] == b[same] {
		same++
	}
	return same
}

// span is where a value stands; zero when it is not there.
type span struct{ from, to int }

func (s span) of(raw []byte) []byte { return raw[s.from:s.to] }

// places is where the members of an object stand that its identity is in. Of members of the same name the last one
// counts.
type places struct{ apiVersion, kind, metadata span }

// locate checks raw, but for its first trusted bytes.
func locate(raw []byte, trusted int) (places, error) {
	if len(raw) == 0 {
		return places{}, errors.New("is empty, want the JSON of an object")
	}
	var where places
	err := rawitem.EachMember(raw, trusted, func(name []byte, from, to int) {
		switch string(name) {
		case "apiVersion":
			where.apiVersion = span{from, to}
		case "kind":
			where.kind = span{from, to}
		case "metadata":
			where.metadata = span{from, to}
		}
	})
	return where, err
}

// object reads the identity. Where metadata ends need not be known.
func (p places) object(raw []byte) (Object, error) {
	var namespace, name, uid span
	if at := p.metadata.from; at > 0 && !bytes.HasPrefix(raw[at:], []byte("null")) {
		if rawitem.Members(raw, at, 0, func(member []byte, from, to int) {
			switch string(member) {
			case "namespace":
				namespace = span{from, to}
			case "name":
				name = span{from, to}
			case "uid":
				uid = span{from, to}
			}
		}) < 0 {
			return Object{}, errors.New("metadata is no JSON object")
		}
	}
	var object Object
	for _, err := range [...]error{
		text("apiVersion", p.apiVersion.of(raw), &object.APIVersion),
		text("kind", p.kind.of(raw), &object.Kind),
		text("metadata.namespace", namespace.of(raw), &object.Namespace),
		text("metadata.name", name.of(raw), &object.Name),
		text("metadata.uid", uid.of(raw), &object.UID),
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
