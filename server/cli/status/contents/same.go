package contents

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// printOf returns a hash of what differences are looked for in: names, version, UID, labels and annotations.
func printOf(item *manifest.Item) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	write := func(text string) {
		_, _ = h.WriteString(text) // a hash does not fail
		_ = h.WriteByte(0)
	}
	for _, text := range []string{item.APIGroup, item.Resource, item.Namespace, item.Name, item.APIVersion, item.UID} {
		write(text)
	}
	for _, all := range []map[string]string{item.Labels, item.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			write(key)
			write(all[key])
		}
		_ = h.WriteByte(1) // which begins no key
	}
	return h.Sum64()
}

// same returns a function that reports of each item that is read whether the other manifest has the same, as far as the
// indexes of both say so. It sets those of wanted to false whose blocks have only such items.
//
// An object in several versions counts as its first one, so the others of it are the same if that is.
func (w *walk) same(ctx context.Context, now state, wanted []bool) (func(*manifest.Item) (bool, error), error) {
	there, err := w.other.state(ctx, true)
	if err != nil || now.index == nil || there.index == nil {
		return nil, err
	}
	o := &overlap{blocks: there.blocks, prints: &there.index.prints}
	i, changed := 0, make([]bool, len(wanted))
	for piece, err := range now.index.prints.pieces() {
		if err != nil {
			return nil, err
		}
		if wanted[i] {
			if err := o.moveTo(now.blocks, i); err != nil {
				return nil, err
			}
			changed[i] = !o.hasAll(piece)
		}
		i++
	}
	for i := range wanted { // the first item may be another version of the last one before
		wanted[i] = wanted[i] && (changed[i] || i+1 < len(changed) && changed[i+1])
	}
	reading := &overlap{blocks: there.blocks, prints: &there.index.prints}
	block, last, wasSame := 0, manifest.Ref{}, false
	return func(item *manifest.Item) (bool, error) {
		ref := item.Ref()
		if last.Name != "" && last.Compare(ref) == 0 {
			return wasSame, nil
		}
		for block+1 < len(now.blocks) && now.blocks[block+1].First.Compare(ref) <= 0 {
			block++
		}
		if err := reading.moveTo(now.blocks, block); err != nil {
			return false, err
		}
		last, wasSame = ref, reading.has(printOf(item))
		return wasSame, nil
	}, nil
}

// overlap is those blocks of a manifest that may have the items of a block of another one.
type overlap struct {
	blocks []manifest.Block
	prints *column
	begin  int // the first of them; the item that it begins with comes before those of the block
	pieces [][]byte
}

// moveTo makes it the overlap with a block, which must not come before the last one.
func (o *overlap) moveTo(blocks []manifest.Block, at int) error {
	for o.begin+1 < len(o.blocks) && o.blocks[o.begin+1].First.Compare(blocks[at].First) < 0 {
		o.begin++
		o.pieces = o.pieces[min(1, len(o.pieces)):]
	}
	for end := o.begin + len(o.pieces); end < len(o.blocks) && (at+1 == len(blocks) ||
		o.blocks[end].First.Compare(blocks[at+1].First) <= 0); end++ {
		piece, err := o.prints.piece(end)
		if err != nil {
			return err
		}
		o.pieces = append(o.pieces, piece)
	}
	return nil
}

// hasAll reports whether the overlap has all prints of a piece.
func (o *overlap) hasAll(piece []byte) bool {
	rest := slices.Clone(o.pieces) // all are sorted
	for ; len(piece) > 0; piece = piece[8:] {
		wanted, found := binary.LittleEndian.Uint64(piece), false
		for i := range rest {
			for len(rest[i]) > 0 && binary.LittleEndian.Uint64(rest[i]) < wanted {
				rest[i] = rest[i][8:]
			}
			found = found || len(rest[i]) > 0 && binary.LittleEndian.Uint64(rest[i]) == wanted
		}
		if !found {
			return false
		}
	}
	return true
}

func (o *overlap) has(wanted uint64) bool {
	return slices.ContainsFunc(o.pieces, func(piece []byte) bool {
		low, high := 0, len(piece)/8
		for low < high {
			middle := (low + high) / 2
			switch found := binary.LittleEndian.Uint64(piece[8*middle:]); {
			case found == wanted:
				return true
			case found < wanted:
				low = middle + 1
			default:
				high = middle
			}
		}
		return false
	})
}
