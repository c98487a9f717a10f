package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DecodeItem decodes the JSON of one object; field is the request's field, for the error.
func DecodeItem(field string, raw []byte) (*unstructured.Unstructured, error) {
	item := &unstructured.Unstructured{}
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
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(updated.Object); err != nil {
		return nil, fmt.Errorf("encode the updated item: %w", err)
	}
	return bytes.TrimSuffix(encoded.Bytes(), []byte("\n")), nil
}
