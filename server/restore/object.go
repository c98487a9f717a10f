package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/item"
)

// object is one object to be restored. Only its two upper levels are taken apart: what stands below stays
// the bytes of the archive unless something asks for it.
type object struct {
	item.Meta
	top  fields
	meta fields
}

// maxFields bounds the keys on one of the levels that are taken apart. No Kubernetes type has that many.
const maxFields = 256

// metadata that belongs to the object that was backed up and not to the one that is made of it. Owners
// are dropped because their uids are gone; controllers adopt what is theirs.
var resetMetadata = []string{
	"generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
}

// decodeObject takes an object apart and checks that it can be one: JSON, with apiVersion, kind and a
// name.
func decodeObject(raw []byte) (*object, error) {
	meta, err := item.ParseMeta(raw)
	if err != nil {
		return nil, err
	}
	switch {
	case meta.Kind == "":
		return nil, errors.New(`it has no "kind", want an object with apiVersion, kind and metadata`)
	case meta.APIVersion == "":
		return nil, errors.New(`it has no "apiVersion", want an object with apiVersion, kind and metadata`)
	case meta.Name == "" && meta.GenerateName == "":
		return nil, errors.New(`it has no "metadata.name"`)
	}
	if _, err := schema.ParseGroupVersion(meta.APIVersion); err != nil {
		return nil, fmt.Errorf("its apiVersion %q is not group/version", meta.APIVersion)
	}
	o := &object{Meta: meta}
	if o.top, err = splitFields(raw); err != nil {
		return nil, err
	}
	if o.meta, err = splitFields(o.top.get("metadata")); err != nil {
		return nil, fmt.Errorf("its metadata: %w", err)
	}
	return o, nil
}

// groupVersion is that of apiVersion, which decodeObject checked.
func (o *object) groupVersion() schema.GroupVersion {
	gv, _ := schema.ParseGroupVersion(o.APIVersion)
	return gv
}

// listKey is the key of the object's type in the list of restored resources, e.g. "apps/v1/Deployment".
func (o *object) listKey() string { return o.APIVersion + "/" + o.Kind }

// reset drops what must not be restored: metadata of the old object, and status.
func (o *object) reset() {
	for _, key := range resetMetadata {
		o.meta.remove(key)
	}
	o.GenerateName, o.UID, o.ResourceVersion, o.DeletionTimestamp, o.OwnerReferences = "", "", "", "", nil
	o.top.remove("status")
}

func (o *object) setNamespace(namespace string) {
	o.Namespace = namespace
	o.meta.set("namespace", quoteJSON(namespace))
}

func (o *object) setLabel(key, value string) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[key] = value
	o.meta.set("labels", stringMapJSON(o.Labels))
}

func (o *object) removeAnnotations(keys ...string) {
	before := len(o.Annotations)
	for _, key := range keys {
		delete(o.Annotations, key)
	}
	switch {
	case len(o.Annotations) == before:
	case len(o.Annotations) == 0:
		o.meta.remove("annotations")
	default:
		o.meta.set("annotations", stringMapJSON(o.Annotations))
	}
}

// encode is the object as JSON, without the metadata fields named.
func (o *object) encode(without ...string) []byte {
	var meta bytes.Buffer
	o.meta.write(&meta, without)
	o.top.set("metadata", meta.Bytes())
	size := 0
	for _, f := range o.top {
		size += len(f.key) + len(f.value) + 8
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	o.top.write(out, nil)
	return out.Bytes()
}

// fields are the members of one JSON object in their order, the values as they stand there.
type fields []field

type field struct {
	key   string
	value []byte
}

func (f fields) get(key string) []byte {
	if i := f.index(key); i >= 0 {
		return f[i].value
	}
	return nil
}

func (f fields) index(key string) int {
	return slices.IndexFunc(f, func(m field) bool { return m.key == key })
}

func (f *fields) set(key string, value []byte) {
	if i := f.index(key); i >= 0 {
		(*f)[i].value = value
		return
	}
	*f = append(*f, field{key, value})
}

func (f *fields) remove(key string) {
	*f = slices.DeleteFunc(*f, func(m field) bool { return m.key == key })
}

func (f fields) write(out *bytes.Buffer, without []string) {
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
		out.Write(quoteJSON(m.key))
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
}

// splitFields takes one level of a JSON object apart. The text must be valid JSON, which item.ParseMeta
// has checked; absent and null are no fields. Of a key that stands there twice the last one counts.
func splitFields(raw []byte) (fields, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, errors.New("want a JSON object")
	}
	var out fields
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
		out.set(key, raw[pos:end:end])
		if len(out) > maxFields {
			return nil, fmt.Errorf("more than %d fields on one level", maxFields)
		}
		pos = end
	}
}

func skipSpace(raw []byte, pos int) int {
	for raw[pos] == ' ' || raw[pos] == '\n' || raw[pos] == '\t' || raw[pos] == '\r' {
		pos++
	}
	return pos
}

// skipValue returns the position behind the value at pos of a valid JSON text.
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

func quoteJSON(text string) []byte {
	quoted, _ := json.Marshal(text) // a string always can be
	return quoted
}

func stringMapJSON(m map[string]string) []byte {
	out, _ := json.Marshal(m) // a map of strings always can be
	return out
}

// json is the fields as one JSON object.
func (f fields) json() []byte {
	var out bytes.Buffer
	f.write(&out, nil)
	return out.Bytes()
}
