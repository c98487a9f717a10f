package framework

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
)

// DecodeConfig decodes the configuration that the host hands to a policy, JSON of an object, into a T. It is strict: a
// key that T has no field for is an error, so that a typing error is found. No configuration at all is the zero T. The
// error names the key.
func DecodeConfig[T any](raw []byte) (T, error) {
	var config T
	if len(raw) == 0 {
		return config, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&config)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("there is more after its end")
		}
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("decode the config: %w", configError(err))
	}
	return config, nil
}

// configError says what is wrong in the words of the one who wrote the config, who knows nothing of Go's types.
func configError(err error) error {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		wanted := fmt.Errorf("want %s, got %s", jsonWord(mistyped.Type), mistyped.Value)
		if mistyped.Field != "" {
			wanted = fmt.Errorf("key %q: %w", mistyped.Field, wanted)
		}
		return wanted
	}
	if key, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Errorf("unknown key %s", key)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

// jsonWord is what a user writes for a value of the type.
func jsonWord(wanted reflect.Type) string {
	switch wanted.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number in the range of " + wanted.String()
	}
}

// Config decodes the configuration of a policy, which gets it with each call, once for each change. The zero value is
// ready to use, concurrently.
type Config[T any] struct {
	mu      sync.Mutex
	known   bool
	raw     []byte
	decoded T
	err     error
}

// Decode is DecodeConfig. What it returns is shared by all calls with the same configuration: do not change what it
// points to.
func (c *Config[T]) Decode(raw []byte) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || !bytes.Equal(c.raw, raw) {
		c.decoded, c.err = DecodeConfig[T](raw)
		c.raw, c.known = bytes.Clone(raw), true
	}
	return c.decoded, c.err
}
