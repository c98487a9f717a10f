package object

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// Object is one object to be restored. The methods of Object keep the embedded metadata consistent with the JSON. Code
// that changes Metadata directly must do so itself.
type Object struct {
	item.Meta
	// Top holds the fields of the object; its "metadata" is outdated, see Metadata.
	Top Fields
	// Metadata holds the fields of "metadata".
	Metadata Fields
}

// InstanceMetadata returns the fields of metadata that belong to one instance of an object and not to its copies. They
// include owners, because their UIDs no longer exist; controllers adopt their objects.
func InstanceMetadata() []string {
	return []string{
		"generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
	}
}

// New returns an object without content.
func New(apiVersion, kind, name string) *Object {
	return &Object{
		Meta:     item.Meta{APIVersion: apiVersion, Kind: kind, Name: name},
		Top:      Fields{{"apiVersion", Quote(apiVersion)}, {"kind", Quote(kind)}},
		Metadata: Fields{{"name", Quote(name)}},
	}
}

// Decode decodes an object, which must have apiVersion, kind and a name, and be one that all decoders read alike.
func Decode(raw []byte) (*Object, error) {
	meta, err := item.ParseForeign(raw)
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
	o := &Object{Meta: meta}
	if o.Top, err = Split(raw); err != nil {
		return nil, err
	}
	if o.Metadata, err = Split(o.Top.Get("metadata")); err != nil {
		return nil, fmt.Errorf("its metadata: %w", err)
	}
	return o, nil
}

// GroupVersion returns apiVersion, which Decode has checked, in parts.
func (o *Object) GroupVersion() schema.GroupVersion {
	gv, _ := schema.ParseGroupVersion(o.APIVersion)
	return gv
}

// ListKey returns the key of the object's type in the list of restored resources, e.g. "apps/v1/Deployment".
func (o *Object) ListKey() string { return o.APIVersion + "/" + o.Kind }

// Reset removes the parts that must not be restored: InstanceMetadata and the status.
func (o *Object) Reset() {
	for _, key := range InstanceMetadata() {
		o.Metadata.Remove(key)
	}
	o.GenerateName, o.UID, o.ResourceVersion, o.DeletionTimestamp, o.OwnerReferences = "", "", "", "", nil
	o.Top.Remove("status")
}

// SetNamespace sets the namespace.
func (o *Object) SetNamespace(namespace string) {
	o.Namespace = namespace
	o.Metadata.Set("namespace", Quote(namespace))
}

// SetName sets the name.
func (o *Object) SetName(name string) {
	o.Name = name
	o.Metadata.Set("name", Quote(name))
}

// SetAnnotation sets an annotation.
func (o *Object) SetAnnotation(key, value string) {
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[key] = value
	o.Metadata.Set("annotations", quoteMap(o.Annotations))
}

// SetLabel sets a label.
func (o *Object) SetLabel(key, value string) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[key] = value
	o.Metadata.Set("labels", quoteMap(o.Labels))
}

// RemoveAnnotations removes the annotations with these keys.
func (o *Object) RemoveAnnotations(keys ...string) {
	o.drop("annotations", o.Annotations, func(key string) bool { return slices.Contains(keys, key) })
}

// drop removes entries from the labels or the annotations.
func (o *Object) drop(field string, entries map[string]string, unwanted func(key string) bool) {
	before := len(entries)
	maps.DeleteFunc(entries, func(key, _ string) bool { return unwanted(key) })
	switch len(entries) {
	case before:
	case 0:
		o.Metadata.Remove(field)
	default:
		o.Metadata.Set(field, quoteMap(entries))
	}
}

// Encode returns the object as JSON, without the named fields of metadata.
func (o *Object) Encode(without ...string) []byte {
	var meta bytes.Buffer
	o.Metadata.write(&meta, without)
	o.Top.Set("metadata", meta.Bytes())
	size := 0
	for _, f := range o.Top {
		size += len(f.key) + len(f.value) + 8
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	o.Top.write(out, nil)
	return out.Bytes()
}
