package item

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// WithoutAnnotation returns an object without one of its annotations.
func WithoutAnnotation(raw []byte, annotation string) ([]byte, error) {
	return WithAnnotation(raw, annotation, "")
}

// WithAnnotation returns an object with an annotation of that value; "" removes it.
func WithAnnotation(raw []byte, annotation, value string) ([]byte, error) {
	var object, metadata, annotations map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if text := metadata["annotations"]; text != nil {
		if err := json.Unmarshal(text, &annotations); err != nil {
			return nil, fmt.Errorf("metadata.annotations: %w", err)
		}
	}
	if annotations == nil {
		annotations = map[string]json.RawMessage{}
	}
	delete(annotations, annotation)
	if value != "" {
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		annotations[annotation] = quoted
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	} else if err := setMember(metadata, "annotations", annotations); err != nil {
		return nil, err
	}
	if err := setMember(object, "metadata", metadata); err != nil {
		return nil, err
	}
	return encodeMembers(object)
}

func setMember(in map[string]json.RawMessage, key string, value map[string]json.RawMessage) (err error) {
	in[key], err = encodeMembers(value)
	return err
}

func encodeMembers(value map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
