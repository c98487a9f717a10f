package manifest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
)

// block is an entry of the index: where the items from First on are in the file.
type block struct {
	At    int64 `json:"at"`
	Size  int64 `json:"size"`
	First key   `json:"first"`
	Items int64 `json:"items"`
}

func (b block) end() int64 { return b.At + b.Size }

// check returns an error if there can be no such block.
func (b block) check() error {
	const (
		maxAt   = 1 << 50
		maxSize = maxBlock + maxBlock/8 // what does not become smaller becomes a little larger
	)
	if b.At <= 0 || b.At > maxAt || b.Size <= 0 || b.Size > maxSize || b.Items <= 0 || b.Items > maxBlock {
		return fmt.Errorf("no block can have %d items in %d bytes at byte %d", b.Items, b.Size, b.At)
	}
	return nil
}

// follows returns an error if the block cannot come right after another one.
func (b block) follows(before block) error {
	if b.At != before.end() {
		return fmt.Errorf("a block begins at byte %d, and the one before ends at %d", b.At, before.end())
	}
	if before.First.compare(b.First) >= 0 {
		return fmt.Errorf("the block at byte %d begins with %s, and the one before with %s: want items sorted", b.At, b.First,
			before.First)
	}
	return nil
}

// read reads the items of a block from where it begins. If name is not empty, only the first item and those of that
// name are read.
func (b block) read(file io.Reader, name string) ([]*Item, error) {
	content, err := decompressAll(io.LimitReader(file, b.Size), maxBlock)
	if err != nil {
		return nil, err
	}
	var wanted bytes.Buffer
	if err := encoder(&wanted).Encode(name); err != nil {
		return nil, err
	}
	value := bytes.TrimSuffix(wanted.Bytes(), []byte("\n"))
	var items []*Item
	count := int64(0)
	for line := range bytes.Lines(bytes.TrimPrefix(content, []byte(",\n"))) {
		count++
		if count > 1 && name != "" && !bytes.Contains(line, value) && !bytes.Contains(line, []byte(`\u`)) {
			continue
		}
		item := &Item{}
		err := json.Unmarshal(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte(",")), item,
			jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // as a Reader does
		if err == nil {
			err = item.check()
		}
		if err == nil && len(items) > 0 {
			err = sorted(keyOf(items[len(items)-1]), keyOf(item))
		}
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", count, err)
		}
		items = append(items, item)
	}
	if count != b.Items {
		return nil, fmt.Errorf("there are %d items, and %d according to the index", count, b.Items)
	}
	if first := keyOf(items[0]); first != b.First {
		return nil, fmt.Errorf("the first item is %s, and %s according to the index", first, b.First)
	}
	return items, nil
}

// decompressAll returns the content of a member of gzip, which may be up to limit bytes long.
func decompressAll(file io.Reader, limit int64) ([]byte, error) {
	compressed, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	decompressed, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	content := bytes.Buffer{}
	if n := len(compressed); n > 4 { // the length before compression is at the end
		content.Grow(int(min(int64(binary.LittleEndian.Uint32(compressed[n-4:])), int64(n)*16, limit)) + bytes.MinRead)
	}
	if _, err := content.ReadFrom(io.LimitReader(decompressed, limit+1)); err != nil {
		return nil, err
	}
	if int64(content.Len()) > limit {
		return nil, fmt.Errorf("more than %d bytes are compressed in it", limit)
	}
	return content.Bytes(), nil
}
