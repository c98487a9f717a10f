package archive

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/klauspost/pgzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// compressionLevel trades size for time: archives are 2 % larger than at the default level of the library and 8 %
	// larger than at that of compress/gzip, but writing the entry headers then takes no longer than the default level
	// takes for the items alone. See archive_size in server/bench.
	compressionLevel = 3
	// blockSize is how many bytes are compressed at once.
	blockSize = 256 << 10
	// maxBlocks bounds the blocks that are compressed at the same time, and with them the memory of a Writer.
	maxBlocks = 4

	fileMode = 0o755
)

// Writer writes an archive as a stream and keeps no more than a few blocks of it in memory. It is safe for
// concurrent use.
//
// Like Velero, it stores an object in its preferred version under two paths, with and without the version. The two
// entries follow each other, so that most second entries compress to a reference to the first.
type Writer struct {
	mu      sync.Mutex
	sink    *sink
	gzip    *pgzip.Writer
	tar     *tar.Writer
	modTime time.Time
	sums    *Sums // nil for none
	err     error // that ended the archive early
	closed  bool
}

// NewWriter starts an archive on w with the entry that holds the format version. All entries get modTime.
// The caller must call Close or Abort.
func NewWriter(w io.Writer, modTime time.Time) (*Writer, error) {
	a, err := newWriter(w, modTime)
	if err != nil {
		return nil, err
	}
	if err := a.entry(versionPath, []byte(FormatVersion+"\n")); err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

// newWriter starts an archive without entries.
func newWriter(w io.Writer, modTime time.Time) (*Writer, error) {
	out := &sink{w: w}
	compressor, err := pgzip.NewWriterLevel(out, compressionLevel)
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	if err := compressor.SetConcurrency(blockSize, min(maxBlocks, 1+runtime.GOMAXPROCS(0))); err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	return &Writer{sink: out, gzip: compressor, tar: tar.NewWriter(compressor), modTime: modTime.Truncate(time.Second)},
		nil
}

// SumInto has the sums of all objects added to sums. It is called before the first one.
func (a *Writer) SumInto(sums *Sums) { a.sums = sums }

// Item writes one object: raw is its JSON in the given API version. An object in the version that the API server
// prefers gets two entries, with and without the version in the path; any other object gets only the entry with the
// version. namespace is empty for a cluster-scoped object.
//
// After an error about a name the archive is intact. After any other error every call fails. An error of the sink may
// be reported by a later call of Item or by Close.
func (a *Writer) Item(
	gr schema.GroupResource, version string, preferred bool, namespace, name string, raw []byte,
) error {
	if err := checkItem(gr, version, namespace, name); err != nil {
		return err
	}
	paths := []string{ItemPath(gr, version, namespace, name)}
	if preferred {
		paths = []string{ItemPath(gr, "", namespace, name), ItemPath(gr, version+preferredSuffix, namespace, name)}
	}
	var sum [sha256.Size]byte
	if a.sums != nil {
		sum = sha256.Sum256(raw)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errors.New("the archive is closed")
	}
	for _, path := range paths {
		if err := a.entry(path, raw); err != nil {
			return err
		}
		if a.sums != nil {
			if a.err = a.sums.add(path, sum[:]); a.err != nil {
				return a.err
			}
		}
	}
	return nil
}

// entry writes one regular file.
func (a *Writer) entry(path string, body []byte) error {
	if a.err != nil {
		return a.err
	}
	if err := a.header(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(body)), Mode: fileMode,
		ModTime: a.modTime}); err != nil {
		return err
	}
	if _, err := a.tar.Write(body); err != nil {
		a.err = fmt.Errorf("write %s to the archive: %w", path, err)
	}
	return a.err
}

// header begins one entry.
func (a *Writer) header(header *tar.Header) error {
	if err := a.tar.WriteHeader(header); err != nil {
		a.err = fmt.Errorf("write %s to the archive: %w", header.Name, err)
	}
	return a.err
}

// Close writes the end of the archive.
func (a *Writer) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errors.New("the archive is closed")
	}
	a.closed = true
	if a.err == nil {
		if a.err = a.tar.Close(); a.err == nil {
			a.err = a.gzip.Close()
		}
		if a.err != nil {
			a.err = fmt.Errorf("write the end of the archive: %w", a.err)
		}
	}
	if a.err != nil {
		a.stop()
	}
	return a.err
}

// Abort stops writing without the end of the archive, so that no reader accepts the output as a whole archive. It does
// nothing after Close.
func (a *Writer) Abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	a.stop()
}

// stop ends the goroutines of the compressor. Nothing reaches the sink any more, neither blocks under way nor the end
// of the gzip stream.
func (a *Writer) stop() {
	a.sink.close()
	a.gzip.Reset(io.Discard)
}

// sink is the writer below the compressor. Nothing passes it once it is closed.
type sink struct {
	w      io.Writer
	mu     sync.Mutex
	closed bool
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return 0, errors.New("the archive was aborted")
	}
	return s.w.Write(p)
}

func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
