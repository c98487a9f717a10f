package archive

import (
	"errors"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Writer writes an archive as a stream: nothing is kept but the batches that are being compressed, of
// 32 KiB or one object each. It is safe for concurrent use.
//
// Every object is stored twice, under a path with and one without version, as Velero does. The second
// copy is not compressed again but written as a reference to the first.
type Writer struct {
	mu     sync.Mutex
	gz     *compressor
	header *header
	batch  *batch
	path   []byte
	first  []byte // header of the first entry of an object
	closed bool
}

// NewWriter starts an archive on w with the entry that names the format. modTime becomes that of all
// entries. The caller must call Close or Abort in the end.
func NewWriter(w io.Writer, modTime time.Time) (*Writer, error) {
	gz, err := newCompressor(w)
	if err != nil {
		return nil, err
	}
	a := &Writer{gz: gz, header: newHeader(modTime), batch: gz.batch()}
	version := []byte(FormatVersion + "\n")
	a.batch.put(a.header.bytes([]byte(versionPath), len(version)), nil, version)
	return a, nil
}

// Item writes one object: raw is its JSON, version the version of the API it is in. An object in the
// version that the API server prefers gets two paths, with and without version; others only the
// one with version. namespace is "" for a cluster-scoped object.
//
// An error about a name leaves the archive intact; after any other every call fails. Errors of the
// sink come late, with a later object or with Close.
func (a *Writer) Item(gr schema.GroupResource, version string, preferred bool, namespace, name string, raw []byte) error {
	if err := errors.Join(checkPart("resource", gr.String()), checkPart("version", version), checkPart("object name", name)); err != nil {
		return err
	}
	if namespace != "" {
		if err := checkPart("namespace", namespace); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errors.New("the archive is closed")
	}
	if err := a.gz.failure(); err != nil {
		return err
	}
	if !preferred {
		a.path = appendItemPath(a.path[:0], gr, version, namespace, name)
		a.entry(a.header.bytes(a.path, len(raw)), nil, raw)
		return nil
	}
	a.path = appendItemPath(a.path[:0], gr, "", namespace, name)
	a.first = append(a.first[:0], a.header.bytes(a.path, len(raw))...)
	a.path = appendItemPath(a.path[:0], gr, version+preferredSuffix, namespace, name)
	second := a.header.bytes(a.path, len(raw))
	if len(second) == len(a.first) {
		a.entry(a.first, second, raw)
		return nil
	}
	// A path that only with the version is too long for a plain header.
	a.entry(a.first, nil, raw)
	a.entry(second, nil, raw)
	return nil
}

// Close ends the archive.
func (a *Writer) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errors.New("the archive is closed")
	}
	a.closed = true
	a.gz.add(a.batch)
	end := a.gz.batch()
	end.put(nil, nil, zeros[:2*blockSize]) // a tar file ends with two empty blocks
	a.gz.add(end)
	return a.gz.close()
}

// Abort ends the writing without the end of the archive: what was written so far cannot be mistaken for
// a whole one. It is for when Close will not be called.
func (a *Writer) Abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	a.gz.fail(errors.New("the archive was given up"))
	_ = a.gz.close() // that error
}

// entry adds an entry to the batch, and sends that on its way when it is full.
func (a *Writer) entry(header, second, body []byte) {
	size := len(header) + len(body) + padding(len(body))
	if len(a.batch.plain) > 0 && len(a.batch.plain)+size > window {
		a.gz.add(a.batch)
		a.batch = a.gz.batch()
	}
	a.batch.big = size > window
	a.batch.put(header, second, body)
}

var zeros [2 * blockSize]byte
