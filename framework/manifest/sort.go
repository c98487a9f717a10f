package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// sorter sorts lines by their keys, in memory that does not grow with their number: it writes sorted runs to a
// temporary file. Of several lines with one key it keeps the last.
type sorter struct {
	memory  int
	arena   []byte   // keys and lines
	records []record // in arena; each whole section of them is sorted
	runs    runs
}

// sectionRecords is how many records are sorted at a time while others are still to come, so that little is left to do
// when they end.
const sectionRecords = 256

// record is a key and its line, one after the other in the arena.
type record struct{ at, key, line int }

const recordSize = 24

func newSorter(options Options) *sorter {
	return &sorter{memory: cmp.Or(options.Memory, 4<<20), runs: runs{dir: options.Dir}}
}

func (s *sorter) add(key string, line []byte) error {
	if len(s.records) > 0 && len(s.arena)+len(key)+len(line)+recordSize*len(s.records) > s.memory {
		if err := s.runs.write(s.inMemory()); err != nil {
			return fmt.Errorf("sort the items of the manifest: %w", err)
		}
		s.arena, s.records = s.arena[:0], s.records[:0]
	}
	if size := len(key) + len(line); cap(s.arena)-len(s.arena) < size {
		// append copies more often
		s.arena = slices.Grow(s.arena, max(size, min(len(s.arena), s.memory-len(s.arena)), 64<<10))
	}
	s.records = append(s.records, record{len(s.arena), len(key), len(line)})
	s.arena = append(append(s.arena, key...), line...)
	if n := len(s.records); n%sectionRecords == 0 {
		slices.SortFunc(s.records[n-sectionRecords:], s.compare)
	}
	return nil
}

// compare compares by the key. Of two records with one key, that comes first which was added first.
func (s *sorter) compare(a, b record) int {
	return cmp.Or(bytes.Compare(s.entry(a).key, s.entry(b).key), a.at-b.at)
}

// sort merges the sections into one.
func (s *sorter) sort() {
	slices.SortFunc(s.records[len(s.records)/sectionRecords*sectionRecords:], s.compare)
	var spare []record
	for size := sectionRecords; size < len(s.records); size *= 2 {
		merged := slices.Grow(spare[:0], len(s.records))
		for pair := range slices.Chunk(s.records, 2*size) {
			split := min(size, len(pair))
			merged = s.appendMerged(merged, pair[:split], pair[split:])
		}
		s.records, spare = merged, s.records
	}
}

// appendMerged appends two sorted sections as one. Those of a backup often follow each other as they are.
func (s *sorter) appendMerged(to, a, b []record) []record {
	if len(b) > 0 && s.compare(a[len(a)-1], b[0]) > 0 {
		for len(a) > 0 && len(b) > 0 {
			if s.compare(a[0], b[0]) < 0 {
				to, a = append(to, a[0]), a[1:]
			} else {
				to, b = append(to, b[0]), b[1:]
			}
		}
	}
	return append(append(to, a...), b...)
}

// entry is a line with its key.
type entry struct{ key, line []byte }

func compareEntries(a, b *entry) int { return bytes.Compare(a.key, b.key) }

// inMemory yields the lines in memory, sorted.
func (s *sorter) inMemory() iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		s.sort()
		for i, r := range s.records {
			e := s.entry(r)
			if i+1 < len(s.records) && bytes.Equal(e.key, s.entry(s.records[i+1]).key) {
				continue
			}
			if !yield(&e, nil) {
				return
			}
		}
	}
}

func (s *sorter) entry(r record) entry {
	line := r.at + r.key
	return entry{s.arena[r.at:line], s.arena[line : line+r.line]}
}

// sorted yields all lines.
func (s *sorter) sorted() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		entries := s.inMemory()
		if len(s.runs.all) > 0 {
			entries = s.runs.merged(entries)
		}
		for e, err := range entries {
			if err != nil {
				yield(nil, fmt.Errorf("sort the items of the manifest: %w", err))
				return
			}
			if !yield(e.line, nil) {
				return
			}
		}
	}
}

func (s *sorter) close() {
	s.runs.close()
	s.arena, s.records = nil, nil
}
