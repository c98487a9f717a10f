package itemaction

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// CheckItem returns the metadata of an item that the action called name returned for the item original. It returns an
// error if the item is missing, is not an object with apiVersion and kind that all decoders read alike, or is a
// different object than original, which would have another name in the archive. The version may differ.
func CheckItem(name string, original item.Meta, returned []byte) (item.Meta, error) {
	if len(returned) == 0 {
		return item.Meta{}, fmt.Errorf("%s returned no item", name)
	}
	meta, err := item.ParseForeign(returned)
	if err == nil && (meta.Kind == "" || meta.APIVersion == "") {
		err = errors.New("want an object with apiVersion and kind")
	}
	switch {
	case err != nil:
		return item.Meta{}, fmt.Errorf("item returned by %s: %w", name, err)
	case meta.Name != original.Name || meta.Namespace != original.Namespace:
		return item.Meta{}, fmt.Errorf("%s returned object %q of namespace %q, want the item of the call", name,
			meta.Name, meta.Namespace)
	case typeOf(meta) != typeOf(original):
		return item.Meta{}, fmt.Errorf("%s returned a %s, want a %s like the item of the call", name, typeOf(meta),
			typeOf(original))
	}
	return meta, nil
}

// typeOf returns the type of an object, independent of its version.
func typeOf(meta item.Meta) schema.GroupKind {
	return schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind).GroupKind()
}
