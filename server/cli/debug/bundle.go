package debug

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/cleat-dev/cleat/server/cli/redact"
	"github.com/cleat-dev/cleat/server/internal/kube/wholefile"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// bundle is an archive that is being written.
type bundle struct {
	path     string
	file     *wholefile.File
	gzip     *gzip.Writer
	tar      *tar.Writer
	problems []string
	log      io.Writer // names the files; nil for none
}

func newBundle(path string) (*bundle, error) {
	file, err := wholefile.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	b := &bundle{path: path, file: file, gzip: gzip.NewWriter(file)}
	b.tar = tar.NewWriter(b.gzip)
	return b, nil
}

func (b *bundle) add(name string, content []byte) error {
	if b.log != nil {
		fmt.Fprintf(b.log, "%s, %s\n", name, layout.Bytes(int64(len(content))))
	}
	if err := b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)),
		ModTime: time.Now()}); err != nil {
		return err
	}
	_, err := b.tar.Write(content)
	return err
}

// lacks notes what could not be collected.
func (b *bundle) lacks(what string, err error) {
	b.problems = append(b.problems, redact.Text(fmt.Sprintf("%s: %v", what, err)))
}

// close completes the file. What it lacks is in a file of its own.
func (b *bundle) close() error {
	if len(b.problems) > 0 {
		if err := b.add("missing.txt", []byte(strings.Join(b.problems, "\n")+"\n")); err != nil {
			return err
		}
	}
	err := errors.Join(b.tar.Close(), b.gzip.Close())
	if err == nil {
		err = b.file.Commit(0o600)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", b.path, err)
	}
	return nil
}

// abort removes the file, unless it is complete.
func (b *bundle) abort() { b.file.Abort() }
