package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// contents is the metadata of an archive.
type contents struct {
	formatVersion string
	hasResources  bool
}

// scanned is one object while an archive is scanned.
type scanned struct {
	gr              schema.GroupResource
	version         string // the folder; empty for a path without a version
	namespace, name string
	body            io.Reader
	where           location
	in              *meter
}

// explain returns an error of reading or handling the body as an error of the archive.
func (e scanned) explain(err error) error { return e.in.explain(err, "in "+e.where.String()) }

// scan reads the tar.gz in r to its end, verifies its checksum, and calls object for each object. It skips all other
// entries.
func scan(ctx context.Context, r io.Reader, limits Limits, object func(scanned) error) (contents, error) {
	src := &source{ctx: ctx, r: r}
	buffered := bufio.NewReaderSize(src, 256<<10)
	switch head, err := buffered.Peek(2); {
	case src.err != nil:
		return contents{}, fmt.Errorf("read the archive: %w", src.err)
	case len(head) == 0:
		return contents{}, fmt.Errorf("%w: it is empty (0 bytes), want a gzip-compressed tar", ErrNotArchive)
	case err != nil || head[0] != 0x1f || head[1] != 0x8b:
		return contents{}, fmt.Errorf("%w: it does not start like gzip (starts with %#x), want a gzip-compressed tar",
			ErrNotArchive, head)
	}
	unzipped, err := gzip.NewReader(buffered)
	if err != nil {
		return contents{}, src.explain(err, "in the gzip header")
	}
	s := &scanner{in: &meter{r: unzipped, source: src, limits: limits}, limits: limits, object: object}
	if err := s.entries(tar.NewReader(s.in)); err != nil {
		return contents{}, err
	}
	// The checksum follows the end of the tar.
	if _, err := io.Copy(io.Discard, s.in); err != nil {
		return contents{}, s.in.explain(err, "after the last entry")
	}
	return s.found, nil
}

// scanner holds the state of one scan.
type scanner struct {
	in     *meter
	limits Limits
	object func(scanned) error
	count  int // entries seen
	found  contents
}

func (s *scanner) entries(entries *tar.Reader) error {
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if errors.Is(err, tar.ErrHeader) && s.count == 0 {
				return fmt.Errorf("%w: what is compressed in it is not a tar", ErrNotArchive)
			}
			return s.in.explain(err, fmt.Sprintf("after entry %d", s.count))
		}
		s.count++
		if err := s.entry(header, entries); err != nil {
			return err
		}
	}
}

func (s *scanner) entry(header *tar.Header, body io.Reader) error {
	where := location{s.count, header.Name, s.in.read}
	if s.count > s.limits.Items {
		return fmt.Errorf("%w: %s: more than %d entries", ErrLimit, where, s.limits.Items)
	}
	if len(header.Name) > s.limits.PathBytes {
		return fmt.Errorf("%w: %s: path of %d bytes, at most %d are allowed", ErrLimit, where, len(header.Name),
			s.limits.PathBytes)
	}
	path, err := cleanPath(header.Name)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnsafePath, where, err)
	}
	if header.Typeflag == tar.TypeDir {
		s.found.hasResources = s.found.hasResources || path == resourcesDir
		return nil
	}
	if header.Typeflag != tar.TypeReg {
		return fmt.Errorf("%w: %s: entry of type %q, want regular files only", ErrUnsafePath, where, header.Typeflag)
	}
	if header.Size > s.limits.ItemBytes {
		return fmt.Errorf("%w: %s: %d bytes, at most %d are allowed for one object", ErrLimit, where, header.Size,
			s.limits.ItemBytes)
	}
	if path == versionPath {
		return s.version(body, where)
	}
	s.found.hasResources = s.found.hasResources || strings.HasPrefix(path, resourcesDir+"/")
	o, ok, err := parseObject(path)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnsafePath, where, err)
	}
	if !ok {
		return nil
	}
	return s.object(scanned{gr: o.GroupResource, version: o.Version, namespace: o.Namespace, name: o.Name, body: body,
		where: where, in: s.in})
}

// location identifies an entry in messages.
type location struct {
	number int
	name   string
	offset int64
}

func (l location) String() string {
	return fmt.Sprintf("entry %d, %s, near byte %d of the tar", l.number, quotedPath(l.name), l.offset)
}

// version reads metadata/version.
func (s *scanner) version(body io.Reader, where location) error {
	const most = 64
	text, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil {
		return s.in.explain(err, "in "+where.String())
	}
	version := strings.TrimSpace(string(text))
	if major, _, _ := strings.Cut(version, "."); major != "1" {
		return fmt.Errorf("%w: %s: format version %q, want 1.x.y", ErrNotArchive, where, version)
	}
	s.found.formatVersion = version
	return nil
}
