package manifest

import (
	"bufio"
	"encoding/binary"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/klauspost/compress/flate"
)

// maxRuns is how many runs are kept before they are merged into one, because each one that is read takes memory.
const maxRuns = 128

// runs are sorted entries in a temporary file, later runs with later entries.
type runs struct {
	dir  string
	file *os.File // nil before the first run; it has no name
	size int64
	all  []section
}

// section is where a run is in the file.
type section struct{ at, size int64 }

// write adds a run.
func (r *runs) write(entries iter.Seq2[*entry, error]) error {
	if len(r.all) == maxRuns {
		if err := r.compact(); err != nil {
			return err
		}
	}
	if r.file == nil {
		file, err := os.CreateTemp(r.dir, "manifest-*")
		if err != nil {
			return err
		}
		r.file = file
		if err := os.Remove(file.Name()); err != nil {
			return err
		}
	}
	out := &counter{out: io.NewOffsetWriter(r.file, r.size)}
	if err := encodeRun(out, entries); err != nil {
		return err
	}
	r.all = append(r.all, section{r.size, out.written})
	r.size += out.written
	return nil
}

// compact merges the runs into one, in a new file.
func (r *runs) compact() error {
	one := runs{dir: r.dir}
	if err := one.write(r.merged()); err != nil {
		one.close()
		return err
	}
	r.close()
	*r = one
	return nil
}

// merged yields the entries of the runs, and of later ones that are not written, in their order. Of those with one key
// it yields the last.
func (r *runs) merged(later ...iter.Seq2[*entry, error]) iter.Seq2[*entry, error] {
	var all []iter.Seq2[*entry, error]
	for _, run := range r.all {
		all = append(all, decodeRun(io.NewSectionReader(r.file, run.at, run.size)))
	}
	return func(yield func(*entry, error) bool) {
		for equal, err := range merge(compareEntries, append(all, later...)...) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range slices.Backward(equal) {
				if e == nil {
					continue
				}
				if !yield(e, nil) {
					return
				}
				break
			}
		}
	}
}

func (r *runs) close() {
	if r.file != nil {
		r.file.Close() //nolint:errcheck // nothing of it is needed any more
	}
	*r = runs{dir: r.dir}
}

// encodeRun writes entries with their lengths, compressed.
func encodeRun(out io.Writer, entries iter.Seq2[*entry, error]) error {
	compressed, err := flate.NewWriter(out, flate.BestSpeed)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(compressed)
	for e, err := range entries {
		if err != nil {
			return err
		}
		prefix := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(e.key))), uint64(len(e.line)))
		for _, part := range [][]byte{prefix, e.key, e.line} {
			if _, err := buffered.Write(part); err != nil {
				return err
			}
		}
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return compressed.Close()
}

// decodeRun yields what encodeRun wrote.
func decodeRun(run io.Reader) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		in := bufio.NewReader(flate.NewReader(run))
		for {
			e, err := decodeEntry(in)
			if err == io.EOF {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// decodeEntry returns io.EOF at the end.
func decodeEntry(in *bufio.Reader) (*entry, error) {
	key, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	line, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, noEOF(err)
	}
	content := make([]byte, key+line)
	if _, err := io.ReadFull(in, content); err != nil {
		return nil, noEOF(err)
	}
	return &entry{content[:key], content[key:]}, nil
}

// noEOF returns an error that is not io.EOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
