package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// keptDecoded is how many decoded objects a Decoded keeps: as many as operations are likely to run at once.
const keptDecoded = 8

// Decoded decodes objects that come again and again with the same bytes, as the Backup does with every item
// of a backup. The zero value is ready to use, concurrently.
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

// Get decodes raw. The caller owns what it gets. field is the request's field, for the error.
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
