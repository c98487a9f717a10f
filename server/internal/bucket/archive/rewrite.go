package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Rewrite copies the archive that r streams to w, with changes: the entry of a changed object is replaced in its
// position, and new objects follow at the end. Like a Writer, it keeps little of the archive in memory. It returns the
// objects that were added. After an error, w has no complete archive; the errors are the errors of Open.
//
// The same changes can be used again.
func Rewrite(
	ctx context.Context, r io.Reader, w io.Writer, changes *Changes, modTime time.Time,
) (added []Entry, err error) {
	out, err := newWriter(w, modTime)
	if err != nil {
		return nil, err
	}
	defer out.Abort() // unless it is closed
	rewriter := &rewriter{changes: changes, out: out, limits: DefaultLimits(), written: map[string]bool{}}
	if err := rewriter.copyAll(ctx, r); err != nil {
		return nil, err
	}
	added, err = rewriter.addRest()
	if err != nil {
		return nil, err
	}
	return added, out.Close()
}

// rewriter holds the state of one rewriting.
type rewriter struct {
	changes *Changes
	out     *Writer
	limits  Limits
	count   int
	written map[string]bool // paths of changes
}

// copyAll copies the entries of an archive.
func (w *rewriter) copyAll(ctx context.Context, r io.Reader) error {
	src := &source{ctx: ctx, r: r}
	unzipped, err := gzip.NewReader(bufio.NewReaderSize(src, 256<<10))
	if err != nil {
		return src.explain(err, "in the gzip header")
	}
	in := &meter{r: unzipped, source: src, limits: w.limits}
	entries := tar.NewReader(in)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return in.explain(err, fmt.Sprintf("after entry %d", w.count))
		}
		w.count++
		if w.count > w.limits.Items {
			return fmt.Errorf("%w: more than %d entries", ErrLimit, w.limits.Items)
		}
		if err := w.entry(in, header, entries); err != nil {
			return err
		}
	}
	// The checksum follows the end of the tar.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return in.explain(err, "after the last entry")
	}
	return nil
}

// entry copies or replaces one entry.
func (w *rewriter) entry(in *meter, header *tar.Header, body io.Reader) error {
	path, err := cleanPath(header.Name)
	if err != nil {
		return fmt.Errorf("%w: entry %d, %s: %w", ErrUnsafePath, w.count, quotedPath(header.Name), err)
	}
	if changed, versionDir := w.changes.find(path); changed != nil && header.Typeflag == tar.TypeReg {
		if v, ok := changed.at(versionDir); ok {
			return w.write(changed, versionDir, v)
		}
		if changed.outdated(versionDir) {
			return nil
		}
	}
	if err := w.out.header(header); err != nil {
		return err
	}
	copied := &copying{r: body}
	if _, err := io.Copy(w.out.tar, copied); err != nil {
		if copied.err != nil {
			return in.explain(copied.err, fmt.Sprintf("in entry %d, %s", w.count, quotedPath(header.Name)))
		}
		return fmt.Errorf("write %s to the archive: %w", header.Name, err)
	}
	return nil
}

// write writes one entry of a change, unless it is written.
func (w *rewriter) write(c *change, versionDir string, v changedVersion) error {
	path := ItemPath(c.gr, versionDir, c.namespace, c.name)
	if w.written[path] {
		return nil
	}
	w.written[path] = true
	raw, err := w.changes.read(v)
	if err != nil {
		return err
	}
	return w.out.entry(path, raw)
}

// addRest writes the changes that the archive has no entry for. It returns the objects that the archive has in no
// version.
func (w *rewriter) addRest() (added []Entry, err error) {
	for _, c := range w.changes.order {
		before := len(w.written)
		paths := 0
		for _, v := range c.versions {
			dirs := []string{v.version}
			if v.preferred {
				dirs = []string{"", v.version + preferredSuffix}
			}
			for _, dir := range dirs {
				paths++
				if err := w.write(c, dir, v); err != nil {
					return nil, err
				}
			}
		}
		if len(w.written)-before == paths {
			added = append(added, Entry{GroupResource: c.gr, Namespace: c.namespace, Name: c.name})
		}
	}
	return added, nil
}

// copying keeps the error of the reader, which is not one of the writer.
type copying struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (c *copying) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
