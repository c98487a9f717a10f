package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
)

// index finds blocks by the lines that describe them. A line is decoded, and checked, when it is used.
type index struct {
	lines [][]byte
	end   int64 // no block ends after it
}

// newIndex takes lines; all but the first begin with a comma.
func newIndex(content []byte, end int64) *index {
	x := &index{end: end}
	for line := range bytes.Lines(content) {
		x.lines = append(x.lines, bytes.TrimPrefix(line, []byte(",")))
	}
	return x
}

func (x *index) block(i int) (block, error) {
	var b block
	err := json.Unmarshal(x.lines[i], &b)
	if err == nil {
		err = b.check()
	}
	if err == nil && b.end() > x.end {
		err = fmt.Errorf("the block ends at byte %d, which is after %d", b.end(), x.end)
	}
	if err != nil {
		return block{}, fmt.Errorf("index: %w", err)
	}
	return b, nil
}

// find returns the blocks in which items of ref may be, one after the other.
func (x *index) find(ref Ref) ([]block, error) {
	var failed error
	begin := sort.Search(len(x.lines), func(i int) bool {
		b, err := x.block(i)
		if err != nil {
			failed = err
		}
		return err != nil || within(b.First, ref) >= 0
	})
	if failed != nil {
		return nil, failed
	}
	var found []block
	for i := max(0, begin-1); i < len(x.lines); i++ { // the first may begin in the block before
		b, err := x.block(i)
		if err == nil && len(found) > 0 {
			err = b.follows(found[len(found)-1])
		}
		if err != nil {
			return nil, err
		}
		if within(b.First, ref) > 0 {
			break
		}
		found = append(found, b)
	}
	return found, nil
}

// within returns whether a key comes before, is among, or comes after what ref means.
func within(k key, ref Ref) int {
	if ref.Resource == "" {
		return 0
	}
	want := key{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
	if ref.Name == "" {
		k.Name = ""
		if ref.Namespace == "" {
			k.Namespace = ""
		}
	}
	return k.compareObjects(want)
}
