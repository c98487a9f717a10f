package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// keptDecoded is the number of decoded objects that a Decoded keeps: as many as operations are likely to run at once.
const keptDecoded = 8

// Decoded decodes objects that arrive many times with the same bytes, like the Backup with every item of a backup. The
// zero value is ready to use. It is safe for concurrent use.
type Decoded[T any, P interface {
	*T
	DeepCopy() *T
}] struct {
	mu   sync.Mutex
	next int
	kept [keptDecoded]struct {
		raw    []byte
		object P
	}
}

// Get decodes raw. The caller owns the result. field is the name of the request's field, for errors.
func (d *Decoded[T, P]) Get(field string, raw []byte) (P, error) {
	if known := d.find(raw); known != nil {
		return known.DeepCopy(), nil
	}
	object := P(new(T))
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, fmt.Errorf("decode %s of the request: %w", field, err)
	}
	d.keep(raw, object.DeepCopy())
	return object, nil
}

func (d *Decoded[T, P]) find(raw []byte) P {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kept := range d.kept {
		if kept.object != nil && bytes.Equal(kept.raw, raw) {
			return kept.object
		}
	}
	return nil
}

func (d *Decoded[T, P]) keep(raw []byte, object P) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[d.next].raw, d.kept[d.next].object = bytes.Clone(raw), object
	d.next = (d.next + 1) % keptDecoded
}
