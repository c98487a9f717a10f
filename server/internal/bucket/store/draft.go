package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// Draft rewrites files of a backup that is not final. What is stored through its Store is kept in temporary files until
// Flush, so that the sums can be noted in the Backup before: whenever the server is killed, each file is one that it has
// written. What is read of the backup was drafted, or has a sum that is noted. A noted file that is missing or has
// another sum is ErrChanged and ErrDamaged, and of the archive ErrLost too; a file that is not noted does not exist.
//
// The files of a backup that another kind of server has run have no sums, and are read as they are. A Draft is safe for
// concurrent use.
type Draft struct {
	*Store // through which the backup is read and rewritten

	to      *Store
	backup  string
	scratch string
	guards  bool
	noted   Tally
	pending Tally // that were noted, and may be stored

	mu    sync.Mutex
	known []string // the notes of the Backup, as it was and as Note has made it
	files map[string]*kept
}

// kept is a file that was read, and has one of its sums, or that was drafted.
type kept struct {
	file   *spool.File // nil after Flush
	sum    Sum
	isNew  bool // it is not stored yet
	before Sum  // the sum of the stored file, if isNew and that was read
}

// Draft returns a draft of the files of a backup. Temporary files are in dir, "" for the system's directory of them.
func (s *Store) Draft(b *velerov1.Backup, dir string) *Draft {
	d := &Draft{to: s, backup: b.Name, scratch: dir, noted: Tally{}, files: map[string]*kept{},
		pending: Noted(b)[1], known: []string{notesOf(b)}}
	_, d.guards = b.Annotations[velerov1.FilesAnnotation]
	for name, sum := range TallyOf(b) {
		if key, err := newLayout("").download(velerov1.DownloadTargetKind(name), b.Name); err == nil {
			name = nameIn(key) // noted by a former server
		}
		d.noted[name] = sum
	}
	d.Store = s.With(func(objects objectstore.Store) objectstore.Store {
		return drafting{Store: objects, d: d, dir: s.layout.backupDir(b.Name)}
	})
	return d
}

// Close removes the temporary files.
func (d *Draft) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		f.close()
	}
}

// IsEmpty reports whether there is nothing to flush.
func (d *Draft) IsEmpty() bool { return len(d.Drafted()) == 0 }

// Drafted returns the sums of the files that are not stored yet.
func (d *Draft) Drafted() Tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := Tally{}
	for name, f := range d.files {
		if f.isNew {
			all[name] = f.sum
		}
	}
	return all
}

// Rewrites reports whether a file is drafted that the bucket has. Its new sum must be noted before Flush.
func (d *Draft) Rewrites() bool {
	for name := range d.Drafted() {
		if len(d.sumsOf(name)) > 0 {
			return true
		}
	}
	return false
}

// ErrStale means that somebody has noted other sums in a Backup since a draft of its files was begun.
var ErrStale = errors.New("the sums of the files of the backup were noted by another attempt meanwhile")

// Note notes in a Backup the sums of the files that are drafted beside those that are stored, and of the files that were
// flushed. It returns ErrStale for a Backup that has other notes than the one of the draft, which came from a cache
// perhaps. A Backup that another kind of server has run gets no notes.
func (d *Draft) Note(b *velerov1.Backup) error {
	if !d.guards {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.known, notesOf(b)) {
		return ErrStale
	}
	stored, pending := Tally{}, Noted(b)[1]
	for name, f := range d.files {
		delete(pending, name)
		if !f.isNew {
			stored[name] = f.sum
			continue
		}
		pending[name] = f.sum
		if f.before != (Sum{}) {
			stored[name] = f.before
		}
	}
	stored.Note(b)
	if delete(b.Annotations, velerov1.PendingFilesAnnotation); len(pending) > 0 {
		b.Annotations[velerov1.PendingFilesAnnotation] = pending.String()
	}
	d.known = append(d.known, notesOf(b))
	return nil
}

// notesOf returns the sums that are noted in a Backup, as text.
func notesOf(b *velerov1.Backup) string {
	return b.Annotations[velerov1.FilesAnnotation] + ";" + b.Annotations[velerov1.PendingFilesAnnotation]
}

// Tally returns the sums of the files of the backup as they are with what is drafted, except for velero-backup.json. It
// reads the stored files that may have one of two sums.
func (d *Draft) Tally(ctx context.Context) (Tally, error) {
	all := d.noted.With(d.Drafted())
	for name := range d.pending {
		if name == MetadataFile {
			continue
		}
		f, err := d.read(ctx, name)
		if errors.Is(err, ErrNotFound) {
			continue // it was to be a new file
		}
		if err != nil {
			return nil, err
		}
		all[name] = f.sum
	}
	delete(all, MetadataFile)
	return all, nil
}

// Flushed returns velero-backup.json if a draft that a former server has noted is stored with it, as its last file, and
// the sums of the files. Otherwise it returns nil.
func (d *Draft) Flushed(ctx context.Context) ([]byte, Tally, error) {
	if _, noted := d.pending[MetadataFile]; !noted {
		return nil, nil, nil
	}
	metadata, err := d.to.BackupMetadata(ctx, d.backup)
	if err != nil {
		return nil, nil, err
	}
	if sum := MetadataTally(metadata)[MetadataFile]; sum != d.pending[MetadataFile] {
		return nil, nil, nil
	}
	return metadata, d.noted.With(d.pending), nil
}

// Flush stores the files that are drafted, velero-backup.json last, after a look whether the archive is there.
func (d *Draft) Flush(ctx context.Context) error {
	files := d.Drafted()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != MetadataFile {
			group.Go(func() error { return d.flush(groupCtx, name) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if _, final := files[MetadataFile]; !final {
		return nil
	}
	if archive, known := d.sumOf(ContentsFile(d.backup)); known && archive.Size >= 0 {
		if err := d.to.MustHaveContents(ctx, d.backup, archive.Size); err != nil {
			return err
		}
	}
	return d.flush(ctx, MetadataFile)
}

func (d *Draft) flush(ctx context.Context, name string) error {
	d.mu.Lock()
	f := d.files[name]
	d.mu.Unlock()
	if err := d.to.put(ctx, d.to.layout.backupDir(d.backup)+name, f.content()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.isNew = false
	f.close()
	return nil
}

// sumOf returns the sum of a file that was read or drafted, or else the one that is noted.
func (d *Draft) sumOf(name string) (Sum, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[name]; f != nil {
		return f.sum, true
	}
	sum, known := d.noted[name]
	return sum, known
}

// sumsOf returns the sums that a stored file may have.
func (d *Draft) sumsOf(name string) (sums []Sum) {
	for _, tally := range []Tally{d.noted, d.pending} {
		if sum, ok := tally[name]; ok {
			sums = append(sums, sum)
		}
	}
	return sums
}

// mustExist reports whether a file was read or drafted, or is noted as one that is stored.
func (d *Draft) mustExist(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, noted := d.noted[name]
	return noted || d.files[name] != nil
}

// mayBeEither reports whether it is not known yet which of two sums a stored file has.
func (d *Draft) mayBeEither(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[name] == nil && len(d.sumsOf(name)) > 1
}

func (d *Draft) knows(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[name] != nil || len(d.sumsOf(name)) > 0
}

// read returns a file of the backup that was drafted, or has one of its sums. Each is read from the bucket once.
func (d *Draft) read(ctx context.Context, name string) (*kept, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.files[name]
	if known != nil && known.file != nil {
		return known, nil
	}
	_, noted := d.noted[name]
	body, err := d.to.open(ctx, d.to.layout.backupDir(d.backup)+name)
	if errors.Is(err, ErrNotFound) && noted {
		return nil, d.changed(name, "is missing")
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // only read from
	f, err := d.keep(name, body)
	if err != nil {
		return nil, err
	}
	sums := d.sumsOf(name)
	if known != nil {
		sums = []Sum{known.sum}
	}
	if !slices.ContainsFunc(sums, f.sum.is) {
		f.close()
		if known == nil && !noted {
			return nil, fmt.Errorf("%s was not stored by the server: %w", name, ErrNotFound)
		}
		var want []string
		for _, sum := range sums {
			want = append(want, sum.SHA256)
		}
		return nil, d.changed(name, fmt.Sprintf("has %d bytes with SHA-256 %s, want those with %s that the server has "+
			"written", f.sum.Size, f.sum.SHA256, strings.Join(want, " or ")))
	}
	d.files[name] = f
	return f, nil
}

func (d *Draft) changed(name, how string) error {
	err := fmt.Errorf("%w: %w: %s %s", ErrDamaged, ErrChanged, name, how)
	if name == ContentsFile(d.backup) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// keep returns a temporary file with the content of a file.
func (d *Draft) keep(name string, content io.Reader) (*kept, error) {
	read := newSummed(content)
	file, err := spool.Copy(d.scratch, name, read)
	if err != nil {
		return nil, fmt.Errorf("keep %s until it is stored: %w", name, err)
	}
	return &kept{file: file, sum: read.total()}, nil
}

func (f *kept) content() io.ReadSeeker { return io.NewSectionReader(f.file, 0, f.sum.Size) }

func (f *kept) close() {
	if f.file != nil {
		_ = f.file.Close() // it is removed
		f.file = nil
	}
}

// drafting is an object store whose objects of one backup are those of a draft.
type drafting struct {
	objectstore.Store
	d   *Draft
	dir string
}

// PutObject implements objectstore.Store.
func (s drafting) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	name, ok := strings.CutPrefix(key, s.dir)
	if !ok {
		return s.Store.PutObject(ctx, bucket, key, body)
	}
	if s.d.mayBeEither(name) {
		if _, err := s.d.read(ctx, name); err != nil && !errors.Is(err, ErrChanged) { // which is replaced
			return err
		}
	}
	f, err := s.d.keep(name, body)
	if err != nil {
		return err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	f.isNew = true
	if before := s.d.files[name]; before != nil {
		if f.before = before.before; !before.isNew {
			f.before = before.sum
		}
		before.close()
	}
	s.d.files[name] = f
	return nil
}

// ObjectExists implements objectstore.Store.
func (s drafting) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	if name, ok := strings.CutPrefix(key, s.dir); ok && s.d.mustExist(name) {
		return true, nil // or it is an error that it does not exist
	}
	return s.Store.ObjectExists(ctx, bucket, key)
}

// GetObject implements objectstore.Store.
func (s drafting) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	name, ok := strings.CutPrefix(key, s.dir)
	if !ok {
		return s.Store.GetObject(ctx, bucket, key)
	}
	switch {
	case s.d.knows(name):
		f, err := s.d.read(ctx, name)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(f.content()), nil
	case s.d.guards:
		return nil, fmt.Errorf("%s was not stored by the server: %w", key, ErrNotFound)
	}
	return s.Store.GetObject(ctx, bucket, key)
}
