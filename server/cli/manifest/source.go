package manifest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
)

const (
	// downloadTimeout is how long to wait for the server to make a URL.
	downloadTimeout = 30 * time.Second
	// completionTimeout is how long a shell waits for the names of backups.
	completionTimeout = 3 * time.Second
)

// source is a manifest that the user has named.
type source struct {
	name    string // as the user has written it
	file    *runs.File
	indexed *manifest.File // to read single items; nil for a manifest without an index
}

// Close releases what the source holds.
func (s *source) Close() error { return s.file.Close() }

// Items yields all items in their order.
func (s *source) Items(ctx context.Context) iter.Seq2[*manifest.Item, error] {
	return func(yield func(*manifest.Item, error) bool) {
		content, err := s.file.Open(ctx)
		if err != nil {
			yield(nil, s.failed(err))
			return
		}
		defer func() { _ = content.Close() }() // only read from
		reader, err := manifest.NewReader(content)
		if err != nil {
			yield(nil, s.failed(err))
			return
		}
		for item, err := range reader.Items() {
			if !yield(item, s.failed(err)) {
				return
			}
		}
	}
}

// Of yields the items of a resource, or those of a name if ref has one.
func (s *source) Of(ctx context.Context, ref manifest.Ref) iter.Seq2[*manifest.Item, error] {
	if s.indexed == nil {
		return s.Items(ctx)
	}
	return func(yield func(*manifest.Item, error) bool) {
		for item, err := range s.indexed.Items(ctx, ref) {
			if !yield(item, s.failed(err)) {
				return
			}
		}
	}
}

// failed adds the name of the manifest to an error.
func (s *source) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", layout.OneLine(s.name), err)
}

// opener opens sources.
type opener struct {
	app       *command.App
	downloads *runs.Downloads
	stdin     io.Reader
	cluster   *command.Cluster // nil until it is needed
}

// open opens the manifest that the user has named. It does not close other manifests.
func (o *opener) open(ctx context.Context, name string) (*source, error) {
	s := &source{name: name}
	var err error
	if isFile(name) {
		err = o.openFile(ctx, s)
	} else {
		err = o.openBackup(ctx, s)
	}
	if err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

func (o *opener) openAll(ctx context.Context, names []string) (sources []*source, err error) {
	stdin := 0
	for _, name := range names {
		if name == stdinName {
			stdin++
		}
	}
	if stdin > 1 {
		return nil, errors.New("stdin can be read once only")
	}
	for _, name := range names {
		s, err := o.open(ctx, name)
		if err != nil {
			return nil, closeAll(err, sources...)
		}
		sources = append(sources, s)
	}
	return sources, nil
}

const stdinName = "-"

// isFile reports whether the user means a file rather than a backup.
func isFile(name string) bool {
	if name == stdinName || strings.ContainsRune(name, os.PathSeparator) || strings.HasSuffix(name, ".gz") {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// openFile opens a manifest or an archive that is a file.
func (o *opener) openFile(ctx context.Context, s *source) error {
	file, err := o.openPath(s.name)
	if err != nil {
		return err
	}
	s.file = runs.LocalFile(file)
	start, err := beginning(ctx, s.file)
	if err == nil && isArchive(start) {
		return o.fromArchive(ctx, s, s.file)
	}
	return o.index(ctx, s) // which says what is wrong with the content if err is not nil
}

func (o *opener) openPath(name string) (*os.File, error) {
	if name != stdinName {
		return os.Open(name)
	}
	file, err := runs.TemporaryFile()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(file, o.stdin); err != nil {
		return nil, errors.Join(fmt.Errorf("read stdin: %w", err), file.Close())
	}
	return file, nil
}

// index finds the index of a manifest, if it has one.
func (o *opener) index(ctx context.Context, s *source) error {
	indexed, err := manifest.Open(ctx, s.file)
	if err != nil && !errors.Is(err, manifest.ErrNoIndex) {
		return errors.Join(err, s.Close())
	}
	s.indexed = indexed
	return nil
}

// openBackup opens the manifest of a backup in the cluster.
func (o *opener) openBackup(ctx context.Context, s *source) (err error) {
	if o.cluster == nil {
		if o.cluster, err = o.app.Cluster.Connect(); err != nil {
			return err
		}
	}
	var backup velerov1.Backup
	if err := o.cluster.Get(ctx, o.cluster.Key(s.name), &backup); err != nil {
		return err
	}
	s.file, err = o.downloads.File(ctx, o.cluster, runs.Target{
		Kind: velerov1.DownloadTargetKindBackupResourceList, Name: s.name, Location: backup.Spec.StorageLocation,
		Annotations: map[string]string{velerov1.FileAnnotation: manifest.FileName},
	})
	switch {
	case err == nil:
		err = o.index(ctx, s)
	case !errors.Is(err, runs.ErrNoFile):
		return err
	}
	if err == nil && s.indexed == nil { // a server that ignores the annotation sends another file
		var start []byte
		if start, err = beginning(ctx, s.file); err == nil && !isManifest(start) {
			err = errors.Join(runs.ErrNoFile, s.Close())
		}
	}
	if !errors.Is(err, runs.ErrNoFile) {
		return err
	}
	return o.fromBackup(ctx, s, &backup)
}

// fromBackup makes the manifest of a backup that has none.
func (o *opener) fromBackup(ctx context.Context, s *source, backup *velerov1.Backup) error {
	archive, err := o.downloads.File(ctx, o.cluster, runs.Target{
		Kind: velerov1.DownloadTargetKindBackupContents, Name: s.name, Location: backup.Spec.StorageLocation,
	})
	if errors.Is(err, runs.ErrNoFile) {
		return fmt.Errorf("the object storage has neither a manifest nor an archive of the backup; its phase is %s",
			layout.OrNone(string(backup.Status.Phase)))
	}
	if err != nil {
		return err
	}
	return o.fromArchive(ctx, s, archive)
}

// fromArchive makes the manifest from an archive, in a temporary file. It closes the archive.
func (o *opener) fromArchive(ctx context.Context, s *source, archive *runs.File) (err error) {
	defer func() { err = errors.Join(err, archive.Close()) }()
	content, err := archive.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // only read from
	table, err := reference.New(nil)
	if err != nil {
		return err
	}
	file, err := runs.TemporaryFile()
	if err != nil {
		return err
	}
	progress := command.NewProgress(o.app.Err, layout.OneLine(s.name))
	defer progress.End()
	header := manifest.Header{Backup: manifest.Backup{Name: filepath.Base(s.name)}}
	if err := servermanifest.FromArchive(ctx, &counted{in: content, progress: progress}, header, table, file,
		manifest.Options{}); err != nil {
		return errors.Join(err, file.Close())
	}
	s.file = runs.LocalFile(file)
	return o.index(ctx, s)
}

// counted shows how much of an archive was read.
type counted struct {
	in       io.Reader
	progress command.Progress
	read     int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.read += int64(n)
	c.progress.State(command.State{Phase: "has no manifest, reading its archive", Detail: layout.Bytes(c.read)})
	return n, err
}

// beginning returns the first bytes of a file, decompressed.
func beginning(ctx context.Context, file *runs.File) ([]byte, error) {
	content, err := file.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // only read from
	buffered := bufio.NewReader(content)
	var plain io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if plain, err = gzip.NewReader(buffered); err != nil {
			return nil, err
		}
	}
	start := make([]byte, 512)
	n, err := io.ReadFull(plain, start)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // the callers notice a file that is too short
	}
	return start[:n], err
}

// isArchive reports whether a file that begins so is a tar.
func isArchive(start []byte) bool { return len(start) == 512 && string(start[257:262]) == "ustar" }

// isManifest reports whether a file that begins so is a manifest.
func isManifest(start []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(start), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(`"manifest"`))
}
