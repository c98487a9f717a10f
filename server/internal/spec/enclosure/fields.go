package enclosure

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// object is a JSON object.
type object = map[string]any

// fields are the fields of an object, or of each object of a list, that are kept, with those below; all of them where
// that is nil.
type fields map[string]fields

// fieldsOf returns fields of which all that is below is kept.
func fieldsOf(names ...string) fields {
	all := fields{}
	for _, name := range names {
		all[name] = nil
	}
	return all
}

// with returns the fields and others.
func (f fields) with(others fields) fields {
	all := maps.Clone(f)
	maps.Copy(all, others)
	return all
}

// keep removes all fields of an object but those that are kept. path is that of the object.
func (c *changing) keep(from object, kept fields, path string) {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		value := from[key]
		below, ok := kept[key]
		switch {
		case !ok:
			delete(from, key)
			if !isZero(value) {
				c.changed("without %s", strings.TrimPrefix(path+"."+key, "."))
			}
		case below != nil:
			c.keepBelow(value, below, strings.TrimPrefix(path+"."+key, "."))
		}
	}
}

func (c *changing) keepBelow(value any, kept fields, path string) {
	switch v := value.(type) {
	case nil:
	case object:
		c.keep(v, kept, path)
	case []any:
		for _, element := range v {
			o, ok := element.(object)
			if !ok {
				c.err = fmt.Errorf("%s has an element that is not an object", path)
				return
			}
			c.keep(o, kept, path)
		}
	default:
		c.err = fmt.Errorf("%s is neither an object nor a list of objects", path)
	}
}

func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	case []any:
		return len(v) == 0
	case object:
		return len(v) == 0
	}
	return false
}

// below returns the object in which a path of fields ends, or nil.
func below(o object, path ...string) object {
	for _, field := range path {
		o, _ = o[field].(object)
	}
	return o
}

// each calls use for the objects of a list.
func each(list any, use func(object)) {
	elements, _ := list.([]any)
	for _, element := range elements {
		if o, ok := element.(object); ok {
			use(o)
		}
	}
}

// harmlessAnnotations are prefixes of annotations that no controller outside acts upon, or that the restore sets.
var harmlessAnnotations = []string{"backup.velero.io/", "cleat.dev/", "helm.sh/", "kubectl.kubernetes.io/",
	"kubernetes.io/description", "kubernetes.io/service-account.", "meta.helm.sh/", "restore.velero.io/", "velero.io/"}

// metadata keeps the metadata that stays inside. A finalizer would keep the item after the rehearsal, an owner outside
// would wait for it, and annotations order controllers outside to publish it, or to copy it.
func (c *changing) metadata(kind kind) {
	metadata := below(c.object, "metadata")
	if metadata == nil {
		if c.object["metadata"] != nil {
			c.err = fmt.Errorf("metadata is not an object")
		}
		return
	}
	delete(metadata, "managedFields") // they say who has written what
	c.keep(metadata, fieldsOf("name", "namespace", "generateName", "labels", "annotations"), "metadata")
	annotations, ok := metadata["annotations"].(object)
	switch {
	case !ok:
		delete(metadata, "annotations")
	case !kind.annotated:
		for _, key := range slices.Sorted(maps.Keys(annotations)) {
			if !slices.ContainsFunc(harmlessAnnotations, func(p string) bool { return strings.HasPrefix(key, p) }) {
				delete(annotations, key)
				c.changed("without annotation %s", key)
			}
		}
	}
}
