package wire

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DecodeItem decodes the JSON of one object. field is the name of the request's field, for errors.
func DecodeItem(field string, raw []byte) (*unstructured.Unstructured, error) {
	item := &unstructured.Unstructured{}
	var ok bool
	if item.Object, ok = decodeObject(raw); ok && item.GroupVersionKind().Kind != "" {
		return item, nil
	}
	if err := item.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("decode %s of the request: %w", field, err)
	}
	return item, nil
}

// EncodeUpdated returns the JSON of the item that an action returned: updated, or the request's own bytes if that is
// nil.
func EncodeUpdated(updated *unstructured.Unstructured, requested []byte) ([]byte, error) {
	if updated == nil {
		return requested, nil
	}
	const more = 256 // for labels and annotations, for example
	encoded, err := appendValue(make([]byte, 0, len(requested)+more), updated.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the updated item: %w", err)
	}
	return encoded, nil
}
