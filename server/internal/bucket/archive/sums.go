package archive

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// sumPrefix is the length of a sum in hexadecimal digits and of the two spaces that follow.
const sumPrefix = 2*sha256.Size + 2

// Sums are the SHA-256 sums of the objects of an archive, a line for each path: what "sha256sum" prints where the
// archive is unpacked. They are compressed in a temporary file. A Writer sums its objects, and Sum those of an archive.
type Sums struct {
	file *spool.File
	zip  *gzip.Writer
}

// NewSums returns empty sums, which are kept in a file in dir; "" is the system's directory of temporary files.
func NewSums(dir string) (*Sums, error) {
	file, err := spool.New(dir, "the sums of an archive")
	if err != nil {
		return nil, err
	}
	zip, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Sums{file: file, zip: zip}, nil
}

// add adds the sum of the object at a path.
func (s *Sums) add(path string, sum []byte) error {
	line := make([]byte, 0, 1+sumPrefix+len(path)+1)
	escaped := sumEscaper.Replace(path)
	if escaped != path {
		line = append(line, '\\')
	}
	line = append(append(hex.AppendEncode(line, sum), "  "...), escaped...)
	if _, err := s.zip.Write(append(line, '\n')); err != nil {
		return err
	}
	return nil
}

// Names of some kinds may have line breaks. sha256sum writes them so, after a backslash at the start of the line.
var (
	sumEscaper   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	sumUnescaper = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// Content ends the sums and returns them, compressed with gzip. They are valid until Close.
func (s *Sums) Content() (io.ReadSeeker, error) {
	err := s.zip.Close()
	if err == nil {
		_, err = s.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("end the sums of an archive: %w", err)
	}
	return s.file, nil
}

// Close removes the temporary file.
func (s *Sums) Close() {
	_ = s.file.Close() // what was written has been read, or is of no use
}

// Sum adds the sums of the objects of the archive that r streams. Its errors are those of Open.
func Sum(ctx context.Context, r io.Reader, to *Sums) error {
	return sumEach(ctx, r, func(o Object, sum [sha256.Size]byte) error { return to.add(o.Path(), sum[:]) })
}

// sumEach calls use for each entry of an object of the archive that r streams. The objects have no JSON.
func sumEach(ctx context.Context, r io.Reader, use func(o Object, sum [sha256.Size]byte) error) error {
	sum := sha256.New()
	_, err := scan(ctx, r, DefaultLimits(), func(e scanned) error {
		sum.Reset()
		if _, err := io.Copy(sum, e.body); err != nil {
			return e.explain(err)
		}
		return use(Object{GroupResource: e.gr, Version: e.version, Namespace: e.namespace, Name: e.name},
			[sha256.Size]byte(sum.Sum(nil)))
	})
	return err
}

// Difference is how an object of an archive differs from its sum.
type Difference int

// Differences.
const (
	Changed Difference = iota
	Missing
	Added // or there once more
)

// ErrSums is the error of sums that cannot be used.
var ErrSums = errors.New("the sums of the items cannot be used")

// CompareSums calls found for each object of the archive that r streams that differs from the sums which open opens,
// uncompressed, then for those that are missing. An object whose entries with and without a version differ in the same
// way is found once. CompareSums returns how many objects it has read. An archive that is damaged, whose errors are
// those of Open, is compared as far as it can be read.
func CompareSums(
	ctx context.Context, r io.Reader, open func() (io.ReadCloser, error), found func(Object, Difference),
) (read int, err error) {
	c := &comparison{seed: maphash.MakeSeed(), want: map[uint64]expected{}, found: found}
	if err := eachSum(open, func(_ Object, path string, sum [sha256.Size]byte) {
		c.want[maphash.String(c.seed, path)] = expected{sum: sum}
	}); err != nil {
		return 0, err
	}
	err = sumEach(ctx, r, func(o Object, sum [sha256.Size]byte) error {
		c.compare(o, sum)
		return nil
	})
	if err != nil && !IsDamage(err) {
		return c.read, err
	}
	c.last = Object{}
	return c.read, errors.Join(err, eachSum(open, func(o Object, path string, _ [sha256.Size]byte) {
		if !c.want[maphash.String(c.seed, path)].seen {
			c.report(o, Missing)
		}
	}))
}

// comparison compares an archive with sums.
type comparison struct {
	seed  maphash.Seed
	want  map[uint64]expected // by the hash of the path
	found func(Object, Difference)
	read  int
	last  Object // that was reported
	how   Difference
}

type expected struct {
	sum  [sha256.Size]byte
	seen bool
}

func (c *comparison) compare(o Object, sum [sha256.Size]byte) {
	if !strings.HasSuffix(o.Version, preferredSuffix) {
		c.read++
	}
	id := maphash.String(c.seed, o.Path())
	want, known := c.want[id]
	switch {
	case !known, want.seen:
		c.report(o, Added)
	case want.sum != sum:
		c.report(o, Changed)
	}
	if known {
		want.seen = true
		c.want[id] = want
	}
}

func (c *comparison) report(o Object, how Difference) {
	again := o
	again.Version = c.last.Version
	if how == c.how && again.Path() == c.last.Path() {
		return
	}
	c.last, c.how = o, how
	c.found(o, how)
}

// eachSum calls use for each line of sums.
func eachSum(open func() (io.ReadCloser, error), use func(o Object, path string, sum [sha256.Size]byte)) error {
	content, err := open()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSums, err)
	}
	defer func() { _ = content.Close() }() // only read from
	limits := DefaultLimits()
	lines := bufio.NewScanner(content)
	lines.Buffer(nil, 1+sumPrefix+2*limits.PathBytes+1)
	number := 0
	for lines.Scan() {
		if number++; number > limits.Items {
			return fmt.Errorf("%w: there are more than %d", ErrSums, limits.Items)
		}
		o, path, sum, err := parseSum(lines.Text())
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrSums, number, err)
		}
		use(o, path, sum)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: after line %d: %w", ErrSums, number, err)
	}
	return nil
}

// parseSum parses a line of sums.
func parseSum(line string) (o Object, path string, sum [sha256.Size]byte, err error) {
	rest, escaped := strings.CutPrefix(line, `\`)
	if len(rest) <= sumPrefix || rest[sumPrefix-2:sumPrefix] != "  " {
		return o, "", sum, errors.New("want a SHA-256 sum, two spaces and a path")
	}
	if _, err := hex.Decode(sum[:], []byte(rest[:sumPrefix-2])); err != nil {
		return o, "", sum, fmt.Errorf("want a SHA-256 sum: %w", err)
	}
	if path = rest[sumPrefix:]; escaped {
		path = sumUnescaper.Replace(path)
	}
	o, ok, err := parseObject(path)
	if err == nil && !ok {
		err = fmt.Errorf("%s is not the path of an object", quotedPath(path))
	}
	return o, path, sum, err
}
