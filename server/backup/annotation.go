package backup

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// withoutAnnotation returns an object without one of its annotations.
func withoutAnnotation(raw []byte, annotation string) ([]byte, error) {
	return withAnnotation(raw, annotation, "")
}

// withAnnotation returns an object with an annotation of that value; "" removes it.
func withAnnotation(raw []byte, annotation, value string) ([]byte, error) {
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
	} else if err := set(metadata, "annotations", annotations); err != nil {
		return nil, err
	}
	if err := set(object, "metadata", metadata); err != nil {
		return nil, err
	}
	return encode(object)
}

func set(in map[string]json.RawMessage, key string, value map[string]json.RawMessage) (err error) {
	in[key], err = encode(value)
	return err
}

func encode(value map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
