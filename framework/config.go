package framework

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// DecodeConfig decodes the configuration that the host hands to a policy, JSON of an object, into a T. It is strict: a
// key that T has no field for is an error, so that a typing error is found. No configuration at all is the zero T.
func DecodeConfig[T any](raw []byte) (T, error) {
	var config T
	if len(raw) == 0 {
		return config, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		var none T
		return none, fmt.Errorf("decode the config: %w", err)
	}
	if decoder.More() {
		var none T
		return none, fmt.Errorf("decode the config: there is more after its end")
	}
	return config, nil
}
