package wire

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DecodeItem decodes the JSON of one object; field is the request's field, for the error.
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

// EncodeUpdated is the item that an action answers: updated, or when that is nil the request's own bytes.
func EncodeUpdated(updated *unstructured.Unstructured, requested []byte) ([]byte, error) {
	if updated == nil {
		return requested, nil
	}
	const more = 256 // labels and annotations, for instance
	encoded, err := appendValue(make([]byte, 0, len(requested)+more), updated.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the updated item: %w", err)
	}
	return encoded, nil
}
