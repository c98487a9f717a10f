package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// The files of the checksums of a backup, after its name and "-". The signature is missing if the server has no key.
const (
	ChecksumsFile = "checksums.json"
	SignatureFile = "checksums.sig"
)

// RehearsalPrefix begins the names, after that of the backup and "-", of reports that are stored beside a backup later.
const RehearsalPrefix = "rehearsal-"

// maxChecksums is the most that the checksums or the signature of a backup may have, in bytes.
const maxChecksums = 64 << 20

// ErrChanged is the error of a file whose content is not what its checksum says.
var ErrChanged = errors.New("the file was changed since the backup was made")

func isOfChecksums(artifact string) bool {
	return artifact == ChecksumsFile || artifact == SignatureFile
}

// FileName returns the name of a file in the directory of a backup, without its own name: "" for a name of another
// form, such as velero-backup.json.
func FileName(backup, file string) string {
	for _, separator := range []string{"-", "."} {
		if rest, ok := strings.CutPrefix(file, backup+separator); ok {
			return rest
		}
	}
	return ""
}

// PutChecksums stores the checksums of a backup, and their signature unless that is nil. A signature of an earlier
// attempt is deleted then.
func (s *Store) PutChecksums(ctx context.Context, backup string, checksums, signature []byte) error {
	if err := checkName(backup); err != nil {
		return err
	}
	key := s.layout.artifact(backup, SignatureFile)
	if signature == nil {
		found, err := s.exists(ctx, key)
		if err == nil && found {
			err = s.delete(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	files := []artifact{{s.layout.artifact(backup, ChecksumsFile), bytes.NewReader(checksums)}}
	if signature != nil {
		files = append(files, artifact{key, bytes.NewReader(signature)})
	}
	return s.putAll(ctx, files)
}

// Checksums reads the checksums of a backup and their signature. The signature is nil if there is none. It returns
// ErrNotFound if there are no checksums.
func (s *Store) Checksums(ctx context.Context, backup string) (checksums, signature []byte, err error) {
	if err := checkName(backup); err != nil {
		return nil, nil, err
	}
	if checksums, err = s.readSmall(ctx, s.layout.artifact(backup, ChecksumsFile)); err != nil {
		return nil, nil, err
	}
	signature, err = s.readSmall(ctx, s.layout.artifact(backup, SignatureFile))
	if errors.Is(err, ErrNotFound) {
		return checksums, nil, nil
	}
	return checksums, signature, err
}

func (s *Store) readSmall(ctx context.Context, key string) ([]byte, error) {
	body, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.readWhole(key, body, maxChecksums)
}

// FilesOf returns the names of what is in the directory of a backup, sorted. A name with a slash is in a directory
// below.
func (s *Store) FilesOf(ctx context.Context, backup string) ([]string, error) {
	if err := checkName(backup); err != nil {
		return nil, err
	}
	dir := s.layout.backupDir(backup)
	keys, err := s.list(ctx, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		if name := strings.TrimPrefix(key, dir); name != "" && !strings.HasSuffix(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// OpenFile streams a file of a backup as it is stored, by its name in the directory. It returns ErrNotFound if there is
// none.
func (s *Store) OpenFile(ctx context.Context, backup, file string) (io.ReadCloser, error) {
	if err := checkFile(backup, file); err != nil {
		return nil, err
	}
	return s.open(ctx, s.layout.backupDir(backup)+file)
}

// OpenListed is OpenFile for a file that FilesOf has listed: it does not look whether it exists.
func (s *Store) OpenListed(ctx context.Context, backup, file string) (io.ReadCloser, error) {
	if err := checkFile(backup, file); err != nil {
		return nil, err
	}
	return s.get(ctx, s.layout.backupDir(backup)+file)
}

// SizeOf returns the size of a file that FilesOf has listed, without reading it. known is false if the object store
// does not send ranges.
func (s *Store) SizeOf(ctx context.Context, backup, file string) (size int64, known bool, err error) {
	body, err := s.OpenListed(hostapi.WithRange(ctx, hostapi.Range{Offset: -1, Length: 1}), backup, file)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = body.Close() }() // only read from
	if part := objectstore.PartOf(body); part != nil {
		return part.Size, true, nil
	}
	return 0, false, nil
}

func checkFile(backup, file string) error {
	if err := checkName(backup); err != nil {
		return err
	}
	if file == "" || file == "." || file == ".." || strings.ContainsAny(file, "/\x00") {
		return fmt.Errorf("%q cannot be the name of a file of a backup", file)
	}
	return nil
}

// Guarded returns the location for a reader of one backup: of the files in its directory, it reads only those whose
// sums are given, and with that content. All but the archive are read whole, to a temporary file in dir, before any of
// their content is used; the archive has an error at its end. Their errors are ErrChanged.
func (s *Store) Guarded(backup string, sums Tally, dir string) *Store {
	return s.With(func(objects objectstore.Store) objectstore.Store {
		return guarded{Store: objects, dir: s.layout.backupDir(backup), contents: s.layout.contents(backup), sums: sums,
			scratch: dir}
	})
}

type guarded struct {
	objectstore.Store
	dir, contents string
	sums          Tally
	scratch       string
}

// ObjectExists implements objectstore.Store.
func (g guarded) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	found, err := g.Store.ObjectExists(ctx, bucket, key)
	name, ok := strings.CutPrefix(key, g.dir)
	if err != nil || !ok {
		return found, err
	}
	switch _, listed := g.sums[name]; {
	case found && !listed:
		return false, fmt.Errorf("%w: %s is not among its signed checksums, so somebody has added it", ErrChanged, name)
	case listed && !found:
		return false, fmt.Errorf("%w: %s is missing, its signed checksums have it", ErrChanged, name)
	}
	return found, nil
}

// GetObject implements objectstore.Store.
func (g guarded) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	body, err := g.Store.GetObject(ctx, bucket, key)
	name, ok := strings.CutPrefix(key, g.dir)
	if err != nil || !ok {
		return body, err
	}
	want, listed := g.sums[name]
	if !listed {
		return nil, errors.Join(fmt.Errorf("%w: %s is not among its signed checksums", ErrChanged, name), body.Close())
	}
	checked := &checkedBody{summed: newSummed(body), Closer: body, want: want, name: name}
	if key == g.contents {
		return checked, nil
	}
	return checked.whole(g.scratch)
}

// checkedBody is the content of a file that must have a sum. Its end is an error if it has another one.
type checkedBody struct {
	*summed
	io.Closer
	want Sum
	name string
}

// Read implements io.Reader.
func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.summed.Read(p)
	if err == io.EOF { //nolint:errorlint // unchanged, as an io.Reader must
		if problem := b.problem(); problem != nil {
			return n, problem
		}
	}
	return n, err
}

func (b *checkedBody) problem() error {
	got := b.total()
	if got.is(b.want) {
		return nil
	}
	return fmt.Errorf("%w: %s has %d bytes with SHA-256 %s, its checksum is %s", ErrChanged, b.name, got.Size, got.SHA256,
		b.want.SHA256)
}

// whole reads the content to a temporary file and returns that.
func (b *checkedBody) whole(dir string) (io.ReadCloser, error) {
	defer func() { _ = b.Close() }() // only read from
	file, err := spool.Copy(dir, b.name, b)
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", b.name, err)
	}
	return file, nil
}
