package archive

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/klauspost/pgzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// compressed blocks are this long before compression, and at most so many are in work.
const (
	gzipBlock  = 256 << 10
	gzipBlocks = 4
)

// Writer writes an archive as a stream: nothing is kept but the blocks that are being compressed, a
// few of 256 KiB each. It is safe for concurrent use.
type Writer struct {
	mu     sync.Mutex
	gz     *pgzip.Writer
	header *header
	path   []byte
	err    error // the first error that broke the stream
}

// NewWriter starts an archive on w with the entry that names the format. modTime becomes that of all
// entries. The caller must call Close.
func NewWriter(w io.Writer, modTime time.Time) (*Writer, error) {
	a := &Writer{gz: pgzip.NewWriter(w), header: newHeader(modTime)}
	if err := a.gz.SetConcurrency(gzipBlock, min(gzipBlocks, 1+runtime.GOMAXPROCS(0))); err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	return a, a.entry([]byte(versionPath), []byte(FormatVersion+"\n"))
}

// Item writes one object: raw is its JSON, version the version of the API it is in. An object in the
// version that the API server prefers gets two paths, with and without version; others only the
// one with version. namespace is "" for a cluster-scoped object.
//
// An error about a name leaves the archive intact; after any other every call fails.
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
	if preferred {
		a.path = appendItemPath(a.path[:0], gr, "", namespace, name)
		if err := a.entry(a.path, raw); err != nil {
			return err
		}
		version += preferredSuffix
	}
	a.path = appendItemPath(a.path[:0], gr, version, namespace, name)
	return a.entry(a.path, raw)
}

// Close ends the archive. Without it the archive is truncated, which every reader notices.
func (a *Writer) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.write(zeros[:]) // the end of a tar file: two empty blocks
	}
	if err := a.gz.Close(); a.err == nil && err != nil {
		a.err = fmt.Errorf("end the archive: %w", err)
	}
	err := a.err
	if err == nil {
		a.err = errors.New("the archive is closed")
	}
	return err
}

func (a *Writer) entry(path, body []byte) error {
	if a.err != nil {
		return a.err
	}
	head, err := a.header.bytes(string(path), int64(len(body)))
	if err != nil {
		return err
	}
	a.write(head)
	a.write(body)
	a.write(zeros[:-len(body)&(blockSize-1)])
	return a.err
}

var zeros [2 * blockSize]byte

func (a *Writer) write(b []byte) {
	if a.err != nil || len(b) == 0 {
		return
	}
	if _, err := a.gz.Write(b); err != nil {
		a.err = fmt.Errorf("write the archive: %w", err)
	}
}
