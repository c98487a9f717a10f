package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Artifacts are the files that are stored beside the archive of a backup. Nil readers are skipped. All but Metadata are
// compressed with gzip: the log and the sums by their writers, the others by EncodeJSON.
type Artifacts struct {
	Metadata []byte // velero-backup.json: the Backup with apiVersion and kind, not compressed; required

	Log              io.ReadSeeker
	PodVolumeBackups io.ReadSeeker
	VolumeSnapshots  io.ReadSeeker
	ItemOperations   io.ReadSeeker
	ResourceList     io.ReadSeeker
	ItemSums         io.ReadSeeker
	Results          io.ReadSeeker
	VolumeInfo       io.ReadSeeker
	// CSI snapshots, their contents and classes
	CSISnapshots, CSIContents, CSIClasses io.ReadSeeker

	// Warn is called if the log could not be stored, which does not fail a backup. It may be nil.
	Warn func(error)
}

// Upload is the upload of a backup. It streams the archive while the archive is written to a temporary file; the
// archive becomes visible only after Commit has stored velero-backup.json. Commit, Abort or Leave ends the upload; a
// later Abort or Leave does nothing.
type Upload struct {
	store  *Store
	name   string
	cancel context.CancelFunc
	body   *pipe
	done   chan struct{} // closed when the object store has finished reading the archive
	err    error         // of the object store; set before done is closed

	record *Record

	mu    sync.Mutex
	ended bool
}

var (
	errAborted    = errors.New("the backup was aborted")
	errEnded      = errors.New("the upload has ended already")
	errShortTaken = errors.New("the object store plugin reported success before it had read the whole archive")
)

// BeginBackup starts to stream the archive of a backup, through a temporary file in dir; "" is the system's directory
// of temporary files. The upload fails when ctx is cancelled. BeginBackup returns ErrBackupExists if the bucket has a
// backup of that name.
func (s *Store) BeginBackup(ctx context.Context, name, dir string) (*Upload, error) {
	if err := s.mustNotExist(ctx, name); err != nil {
		return nil, err
	}
	body, err := newPipe(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	recording, record := s.Recording(name)
	u := &Upload{store: recording, record: record, name: name, cancel: cancel, body: body, done: make(chan struct{})}
	go u.stream(ctx)
	return u, nil
}

// stream passes the archive to the object store. If that fails, writes to the archive fail immediately.
func (u *Upload) stream(ctx context.Context) {
	defer close(u.done)
	stop := context.AfterFunc(ctx, func() { u.body.fail(context.Cause(ctx)) })
	defer stop()
	key := u.store.layout.contents(u.name)
	err := u.store.objects.PutObject(ctx, u.store.bucket, key, u.body)
	if err == nil && !u.body.ended() {
		err = errShortTaken
	}
	if err != nil {
		u.err = fmt.Errorf("store %s in bucket %q: %w", key, u.store.bucket, err)
		u.body.fail(u.err)
	}
}

// Contents returns the writer of the archive. Writes fail when the upload fails, when its context ends, and after
// Commit or Abort. The writer must be used by one goroutine only.
func (u *Upload) Contents() io.Writer { return u.body }

// ArchiveSize returns the size of the archive as far as it is written.
func (u *Upload) ArchiveSize() int64 { return u.body.written() }

// Tally returns the sums of the files that the upload has stored, except for velero-backup.json, which is written again
// when the backup is final.
func (u *Upload) Tally() Tally {
	files := u.record.Tally()
	delete(files, MetadataFile)
	return files
}

// Commit stores the log (best effort), velero-backup.json, the archive, then the rest: Velero's order. The rest is
// stored at the same time. The archive is stored again if it is missing or shorter afterwards. If storing anything but
// the log fails, Commit removes everything that it stored except the log, even if ctx was cancelled; if the removal
// fails as well, the error is also ErrNotCleaned. If another backup of that name has appeared in the meantime, Commit
// changes nothing and returns ErrBackupExists. It overwrites files that an earlier attempt of the same backup, by a
// server that was suspended and has continued, has stored in the meantime; velero-backup.json is created if absent where
// the object store supports it, and read back.
func (u *Upload) Commit(ctx context.Context, artifacts Artifacts) error {
	if !u.end() {
		return errEnded
	}
	defer u.body.close()
	defer u.cancel()
	if u.body.failed() {
		<-u.done
		return withCleanup(u.err, u.removeArchive(ctx))
	}
	if err := u.store.mustNotExist(ctx, u.name); err != nil && !u.store.isSame(ctx, u.name, artifacts.Metadata) {
		u.stop(err)
		return withCleanup(err, u.removeArchive(ctx))
	}
	err := u.commit(ctx, artifacts)
	if errors.Is(err, ErrBackupExists) {
		u.stop(err)
		return err // the files are of the other one
	}
	if err != nil {
		u.stop(err)
		return withCleanup(err, u.removeAll(ctx))
	}
	return nil
}

func (u *Upload) commit(ctx context.Context, artifacts Artifacts) error {
	s, l := u.store, u.store.layout
	if artifacts.Log != nil {
		if err := s.put(ctx, l.log(u.name), artifacts.Log); err != nil && artifacts.Warn != nil {
			artifacts.Warn(err)
		}
	}
	if err := s.createBackupMetadata(ctx, u.name, artifacts.Metadata); err != nil {
		return err
	}
	if err := u.finish(ctx); err != nil {
		return err
	}
	if err := s.putAll(ctx, artifacts.rest(l, u.name)); err != nil {
		return err
	}
	return s.mustHold(ctx, u.name, artifacts.Metadata)
}

// finish completes the archive and stores it again if the object store has lost it.
func (u *Upload) finish(ctx context.Context) error {
	s, key := u.store, u.store.layout.contents(u.name)
	u.body.finish()
	select {
	case <-u.done:
	case <-ctx.Done():
		return fmt.Errorf("wait for %s in bucket %q: %w", key, s.bucket, context.Cause(ctx))
	}
	if u.err != nil {
		return u.err
	}
	const attempts = 2
	for attempt := 1; ; attempt++ {
		err := s.MustHaveContents(ctx, u.name, u.body.written())
		if !errors.Is(err, ErrLost) || attempt == attempts {
			return err
		}
		if _, err := u.body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := s.objects.PutObject(ctx, s.bucket, key, u.body); err != nil {
			return fmt.Errorf("store %s in bucket %q again, which was lost: %w", key, s.bucket, err)
		}
	}
}

// MustHaveContents returns ErrLost unless the bucket has an archive of so many bytes, as far as its object store tells
// sizes. It does not read the archive.
func (s *Store) MustHaveContents(ctx context.Context, name string, size int64) error {
	key := s.layout.contents(name)
	found, err := s.exists(ctx, key)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("look for %s in bucket %q: %w: it does not exist, want %d bytes", key, s.bucket, ErrLost, size)
	}
	stored, known, err := s.SizeOf(ctx, name, nameIn(key))
	if err != nil {
		return err
	}
	if known && stored != size {
		return fmt.Errorf("look for %s in bucket %q: %w: it has %d bytes, want %d", key, s.bucket, ErrLost, stored, size)
	}
	return nil
}

// atOnce is how many files of a backup are stored at the same time, after those whose order matters.
const atOnce = 3

// putAll stores the artifacts in any order.
func (s *Store) putAll(ctx context.Context, artifacts []artifact) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, artifact := range artifacts {
		if artifact.body != nil {
			group.Go(func() error { return s.put(ctx, artifact.key, artifact.body) })
		}
	}
	return group.Wait()
}

type artifact struct {
	key  string
	body io.ReadSeeker
}

// rest returns the artifacts that are stored after the archive.
func (a Artifacts) rest(l layout, name string) []artifact {
	return []artifact{
		{l.podVolumeBackups(name), a.PodVolumeBackups},
		{l.volumeSnapshots(name), a.VolumeSnapshots},
		{l.itemOperations(name), a.ItemOperations},
		{l.resourceList(name), a.ResourceList},
		{l.itemSums(name), a.ItemSums},
		{l.results(name), a.Results},
		{l.volumeInfo(name), a.VolumeInfo},
		{l.csiVolumeSnapshots(name), a.CSISnapshots},
		{l.csiVolumeSnapshotContents(name), a.CSIContents},
		{l.csiVolumeSnapshotClasses(name), a.CSIClasses},
	}
}

// Abort ends the upload after a fatal error: the archive never becomes visible. Abort stores log and metadata, a
// velero-backup.json with the phase Failed, unless they are nil. If another backup of that name has appeared in the
// meantime, Abort changes nothing and returns ErrBackupExists.
func (u *Upload) Abort(ctx context.Context, log io.ReadSeeker, metadata []byte) error {
	if !u.end() {
		return nil
	}
	defer u.body.close()
	u.stop(errAborted)
	if err := u.removeArchive(ctx); err != nil {
		return err
	}
	if err := u.store.mustNotExist(ctx, u.name); err != nil {
		return err
	}
	to := u.store
	if to.final != nil { // nothing else of it will be published
		to = to.final
	}
	var logErr error
	if log != nil {
		logErr = to.put(ctx, to.layout.log(u.name), log)
	}
	if metadata == nil {
		return logErr
	}
	return errors.Join(logErr, to.PutBackupMetadata(ctx, u.name, metadata))
}

// Leave ends the upload and changes nothing in the bucket: the files of that name are of another upload.
func (u *Upload) Leave() {
	if u.end() {
		defer u.body.close()
		u.stop(errAborted)
	}
}

func (u *Upload) end() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	first := !u.ended
	u.ended = true
	return first
}

// stop ends the archive's stream with an error and waits until the object store has finished.
func (u *Upload) stop(reason error) {
	u.body.fail(reason)
	u.cancel()
	<-u.done
}

// removeAll removes what Commit may have stored, except the log.
func (u *Upload) removeAll(ctx context.Context) error {
	return u.store.removeUnfinished(ctx, u.name, true)
}

// removeArchive removes the archive that the upload may have left if it ended before Commit stored anything. An object
// store whose process was killed may leave a partial archive. removeArchive does nothing if the directory has the
// velero-backup.json of another backup.
func (u *Upload) removeArchive(ctx context.Context) error {
	return u.store.removeUnfinished(ctx, u.name, false)
}

// withCleanup returns cause, joined in one line with an error of the clean-up.
func withCleanup(cause, cleanup error) error {
	if cleanup == nil {
		return cause
	}
	return fmt.Errorf("%w; %w", cause, cleanup)
}

// mustNotExist returns ErrBackupExists if there is a backup of that name.
func (s *Store) mustNotExist(ctx context.Context, name string) error {
	if s.final != nil {
		if err := s.final.mustNotExist(ctx, name); err != nil {
			return err
		}
	}
	switch exists, err := s.BackupExists(ctx, name); {
	case err != nil:
		return err
	case exists:
		return s.existsError(name)
	}
	return nil
}

func (s *Store) existsError(name string) error {
	return fmt.Errorf("%w: %s in bucket %q; choose another name, or delete that backup first",
		ErrBackupExists, s.layout.metadata(name), s.bucket)
}

// put stores one whole object. An object store that repeats what fails reads body again from its start.
func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.objects.PutObject(ctx, s.bucket, key, body); err != nil {
		return fmt.Errorf("store %s in bucket %q: %w", key, s.bucket, err)
	}
	return nil
}
