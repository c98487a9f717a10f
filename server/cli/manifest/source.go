package manifest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	// downloadTimeout is how long to wait for the server to make a URL.
	downloadTimeout = 30 * time.Second
	// completionTimeout is how long a shell waits for the names of backups.
	completionTimeout = 3 * time.Second
)

// Source is a manifest that the user has named.
type Source struct {
	*contents.Manifest
	file *runs.File
}

// Close releases what the source holds.
func (s *Source) Close() error { return errors.Join(s.Manifest.Close(), s.file.Close()) }

// opener opens sources.
type opener struct {
	app       *command.App
	downloads *runs.Downloads
	stdin     io.Reader
	cluster   *command.Cluster // nil until it is needed
}

// open opens the manifest that the user has named. It does not close other manifests.
func (o *opener) open(ctx context.Context, name string) (*Source, error) {
	if isFile(name) {
		return read(ctx, name, contents.Options{}, func() (*runs.File, error) { return o.localFile(ctx, name) })
	}
	backup, err := o.backup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", layout.OneLine(name), err)
	}
	s, err := read(ctx, name, contents.Options{}, func() (*runs.File, error) {
		return manifestOf(ctx, o.cluster, o.downloads, backup)
	})
	if errors.Is(err, runs.ErrNoFile) || errors.As(err, new(noManifest)) {
		return read(ctx, name, contents.Options{}, func() (*runs.File, error) { return o.fromBackup(ctx, backup) })
	}
	return s, err
}

// read returns the source in the file that open returns.
func read(
	ctx context.Context, name string, options contents.Options, open func() (*runs.File, error),
) (*Source, error) {
	file, err := open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", layout.OneLine(name), err)
	}
	var in contents.Source = file
	if local, size := file.Local(); local != nil {
		in = contents.AtHand(local, size)
	}
	opened, err := contents.Open(ctx, name, in, options)
	if err == nil {
		return &Source{Manifest: opened, file: file}, nil
	}
	if start, failed := beginning(ctx, file); failed == nil && !isManifest(start) {
		err = noManifest{err}
	}
	return nil, errors.Join(err, file.Close())
}

// noManifest is the error of a file that is no manifest, such as a server sends that ignores which file is asked for.
type noManifest struct{ error }

func (o *opener) openAll(ctx context.Context, names []string) (sources []*Source, err error) {
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

// localFile returns a manifest that is a file, or that of an archive that is one.
func (o *opener) localFile(ctx context.Context, name string) (*runs.File, error) {
	local, err := o.openPath(name)
	if err != nil {
		return nil, err
	}
	file := runs.LocalFile(local)
	start, err := beginning(ctx, file)
	if err == nil && isArchive(start) {
		return o.fromArchive(ctx, name, file)
	}
	return file, nil // who reads it says what is wrong with the content if err is not nil
}

func (o *opener) openPath(name string) (runs.Content, error) {
	if name != stdinName {
		return os.Open(name)
	}
	file, err := spool.Copy("", "what comes from stdin", o.stdin)
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	return file, nil
}

// backup returns a backup in the cluster.
func (o *opener) backup(ctx context.Context, name string) (backup *velerov1.Backup, err error) {
	if o.cluster == nil {
		if o.cluster, err = o.app.Cluster.Connect(); err != nil {
			return nil, err
		}
	}
	backup = &velerov1.Backup{}
	return backup, o.cluster.Get(ctx, o.cluster.Key(name), backup)
}

// ErrNone reports that a backup has no manifest.
var ErrNone = errors.New("the object storage has no manifest of the backup")

// Fetch copies the manifest of a backup to temporary files of at most so many bytes, with an index for questions. It
// returns ErrNone if there is none.
func Fetch(
	ctx context.Context, cluster *command.Cluster, downloads *runs.Downloads, backup *velerov1.Backup, most int64,
) (*Source, error) {
	s, err := read(ctx, backup.Name, contents.Options{MaxBytes: most}, func() (*runs.File, error) {
		return manifestOf(ctx, cluster, downloads, backup)
	})
	if errors.Is(err, runs.ErrNoFile) || errors.As(err, new(noManifest)) {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.Index(ctx); err != nil {
		return nil, closeAll(err, s)
	}
	return s, nil
}

// manifestOf returns the manifest of a backup.
func manifestOf(
	ctx context.Context, cluster *command.Cluster, downloads *runs.Downloads, backup *velerov1.Backup,
) (*runs.File, error) {
	return downloads.File(ctx, cluster, runs.Target{
		Kind: velerov1.DownloadTargetKindBackupResourceList, Name: backup.Name, Location: backup.Spec.StorageLocation,
		Annotations: map[string]string{velerov1.FileAnnotation: manifest.FileName},
	})
}

// fromBackup makes the manifest of a backup that has none.
func (o *opener) fromBackup(ctx context.Context, backup *velerov1.Backup) (*runs.File, error) {
	archive, err := o.downloads.File(ctx, o.cluster, runs.Target{
		Kind: velerov1.DownloadTargetKindBackupContents, Name: backup.Name, Location: backup.Spec.StorageLocation,
	})
	if errors.Is(err, runs.ErrNoFile) {
		return nil, fmt.Errorf("the object storage has neither a manifest nor an archive of the backup; its phase is %s",
			layout.OrNone(string(backup.Status.Phase)))
	}
	if err != nil {
		return nil, err
	}
	return o.fromArchive(ctx, backup.Name, archive)
}

// fromArchive makes the manifest from an archive, in a temporary file. It closes the archive.
func (o *opener) fromArchive(ctx context.Context, name string, archive *runs.File) (made *runs.File, err error) {
	defer func() { err = errors.Join(err, archive.Close()) }()
	content, err := archive.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // only read from
	table, err := reference.New(nil)
	if err != nil {
		return nil, err
	}
	file, err := spool.New("", "a manifest")
	if err != nil {
		return nil, err
	}
	progress := command.NewProgress(o.app.Err, layout.OneLine(name))
	defer progress.End()
	header := manifest.Header{Backup: manifest.Backup{Name: filepath.Base(name)}}
	if err := servermanifest.FromArchive(ctx, &counted{in: content, progress: progress}, header, table, file,
		manifest.Options{}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return runs.LocalFile(file), nil
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
