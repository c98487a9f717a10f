package store

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/versioning"
)

const (
	// maxMetadataSize bounds velero-backup.json. A Backup comes from etcd, whose limit is 1.5 MiB.
	maxMetadataSize = 16 << 20

	// maxArtifactSize bounds an uncompressed JSON artifact, so that a decompression bomb cannot exhaust the server's
	// memory. The resource list of a million items has about 100 MiB.
	maxArtifactSize = 512 << 20
)

// EncodeJSON encodes an artifact as Velero does: compact JSON with a trailing newline, compressed with gzip at the default
// level.
func EncodeJSON[T any](value T) (io.ReadSeeker, error) {
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	if err := json.NewEncoder(compressed).Encode(value); err != nil {
		return nil, fmt.Errorf("encode an artifact of type %T: %w", value, err)
	}
	if err := compressed.Close(); err != nil {
		return nil, fmt.Errorf("compress an artifact of type %T: %w", value, err)
	}
	return bytes.NewReader(buffer.Bytes()), nil
}

// PutJSON encodes an artifact and stores it with one of the methods of a Store that put a file of a backup or restore.
func PutJSON[T any](ctx context.Context, put func(ctx context.Context, name string, content io.ReadSeeker) error, name string, value T) error {
	content, err := EncodeJSON(value)
	if err != nil {
		return err
	}
	return put(ctx, name, content)
}

// DecodeJSON reads a JSON artifact of a backup or restore. It returns the zero value of T if the artifact does not exist,
// because all of them are optional.
func DecodeJSON[T any](ctx context.Context, s *Store, kind velerov1.DownloadTargetKind, name string) (T, error) {
	return decode[T](string(kind), name, func() (io.ReadCloser, error) { return s.Get(ctx, kind, name) })
}

// DecodePodVolumeBackups reads the list of PodVolumeBackups of a backup, which no DownloadRequest can ask for. It returns
// the zero value of T if the list does not exist.
func DecodePodVolumeBackups[T any](ctx context.Context, s *Store, name string) (T, error) {
	return decode[T]("PodVolumeBackups", name, func() (io.ReadCloser, error) {
		if err := checkName(name); err != nil {
			return nil, err
		}
		return s.gunzip(ctx, s.layout.podVolumeBackups(name))
	})
}

func decode[T any](kind, name string, open func() (io.ReadCloser, error)) (T, error) {
	var value T
	body, err := open()
	if errors.Is(err, ErrNotFound) {
		return value, nil
	}
	if err != nil {
		return value, err
	}
	defer func() { _ = body.Close() }() // only read from
	limited := &limitedReader{r: body, left: maxArtifactSize, max: maxArtifactSize}
	if err := json.NewDecoder(limited).Decode(&value); err != nil {
		var none T
		return none, fmt.Errorf("decode %s of %q: %w", kind, name, markDamage(err))
	}
	if _, err := io.Copy(io.Discard, limited); err != nil { // reads and verifies the checksum at the end
		var none T
		return none, fmt.Errorf("read %s of %q: %w", kind, name, markDamage(err))
	}
	return value, nil
}

// markDamage makes an error that content has caused, rather than reading it, ErrDamaged too.
func markDamage(err error) error {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, member := errors.AsType[*json.UnmarshalTypeError](err)
	_, deflate := errors.AsType[flate.CorruptInputError](err)
	switch {
	case syntax, member, deflate, errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// PutBackupMetadata stores velero-backup.json and overwrites an existing one.
func (s *Store) PutBackupMetadata(ctx context.Context, name string, metadata []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	if len(metadata) == 0 {
		return fmt.Errorf("store %s: it is empty, want the JSON of a Backup", s.layout.metadata(name))
	}
	return s.put(ctx, s.layout.metadata(name), bytes.NewReader(metadata))
}

// createBackupMetadata stores velero-backup.json if there is none. It replaces that of an earlier attempt of the same backup, and
// returns ErrBackupExists for that of another one.
func (s *Store) createBackupMetadata(ctx context.Context, name string, metadata []byte) error {
	err := s.PutBackupMetadata(hostapi.IfAbsent(ctx), name, metadata)
	if !errors.Is(err, versioning.ErrExists) {
		return err
	}
	if !s.isSame(ctx, name, metadata) {
		return s.existsError(name)
	}
	return s.PutBackupMetadata(ctx, name, metadata)
}

// mustHold returns an error unless velero-backup.json is what was stored. If an earlier attempt of the same backup has
// overwritten it, mustHold stores it again.
func (s *Store) mustHold(ctx context.Context, name string, metadata []byte) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		stored, err := s.BackupMetadata(ctx, name)
		if err != nil || bytes.Equal(stored, metadata) {
			return err
		}
		switch {
		case !s.isSame(ctx, name, metadata):
			return s.existsError(name)
		case attempt == attempts:
			return fmt.Errorf("store %s in bucket %q: another process writes it at the same time", s.layout.metadata(name), s.bucket)
		}
		if err := s.PutBackupMetadata(ctx, name, metadata); err != nil {
			return err
		}
	}
}

// isSame reports whether the stored velero-backup.json certainly is that of the backup of metadata.
func (s *Store) isSame(ctx context.Context, name string, metadata []byte) bool {
	stored, err := s.BackupUID(ctx, name)
	own, errOwn := uidOf(metadata)
	return err == nil && errOwn == nil && own != "" && own == stored
}

// BackupMetadata reads velero-backup.json. It returns ErrNotFound if there is none.
func (s *Store) BackupMetadata(ctx context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	key := s.layout.metadata(name)
	body, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.readMetadata(key, body)
}

// MetadataOfListed reads velero-backup.json as BackupMetadata does, with one call of the object store instead of two if it exists, as
// it does for most listed backups. It is not for patient stores, which repeat the call for a file that is missing.
func (s *Store) MetadataOfListed(ctx context.Context, name string) (metadata []byte, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	key := s.layout.metadata(name)
	body, err := s.objects.GetObject(ctx, s.bucket, key)
	if err != nil {
		err = fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
	} else if metadata, err = s.readMetadata(key, body); err == nil {
		return metadata, nil
	}
	if found, errExists := s.exists(ctx, key); errExists == nil && !found {
		return nil, fmt.Errorf("%s in bucket %q: %w", key, s.bucket, ErrNotFound)
	}
	return nil, err
}

func (s *Store) readMetadata(key string, body io.ReadCloser) ([]byte, error) {
	defer func() { _ = body.Close() }() // only read from
	metadata, err := io.ReadAll(&limitedReader{r: body, left: maxMetadataSize, max: maxMetadataSize})
	if err != nil {
		return nil, fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
	}
	return metadata, nil
}

// BackupUID returns the metadata.uid in velero-backup.json, which identifies the backup. It returns ErrNotFound if that
// file does not exist.
func (s *Store) BackupUID(ctx context.Context, name string) (types.UID, error) {
	metadata, err := s.BackupMetadata(ctx, name)
	if err != nil {
		return "", err
	}
	uid, err := uidOf(metadata)
	if err != nil {
		return "", fmt.Errorf("decode %s in bucket %q, want the JSON of a Backup: %w", s.layout.metadata(name), s.bucket, err)
	}
	return uid, nil
}

// uidOf returns the metadata.uid of a Backup.
func uidOf(metadata []byte) (types.UID, error) {
	var backup struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(metadata, &backup)
	return backup.Metadata.UID, err
}

// BackupContents streams the archive as it is stored, compressed. It returns ErrNotFound if there is none.
func (s *Store) BackupContents(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.Get(ctx, velerov1.DownloadTargetKindBackupContents, name)
}

// Get streams a file of a backup or restore, uncompressed except for BackupContents. It returns ErrNotFound if there is
// none. The size of the stream is not limited.
func (s *Store) Get(ctx context.Context, kind velerov1.DownloadTargetKind, name string) (io.ReadCloser, error) {
	key, err := s.layout.download(kind, name)
	if err != nil {
		return nil, err
	}
	if kind == velerov1.DownloadTargetKindBackupContents {
		return s.open(ctx, key)
	}
	return s.gunzip(ctx, key)
}

// gunzip returns the uncompressed content of an object.
func (s *Store) gunzip(ctx context.Context, key string) (io.ReadCloser, error) {
	body, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	plain, err := gzip.NewReader(body)
	if err != nil {
		_ = body.Close() // only read from
		return nil, fmt.Errorf("read %s in bucket %q, want gzip: %w", key, s.bucket, markDamage(err))
	}
	return &gunzipped{Reader: plain, body: body}, nil
}

// open returns the content of an object. It first checks that the object exists, because an error of the hub's GetObject
// does not distinguish a missing object from a failure.
func (s *Store) open(ctx context.Context, key string) (io.ReadCloser, error) {
	switch found, err := s.exists(ctx, key); {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("%s in bucket %q: %w", key, s.bucket, ErrNotFound)
	}
	body, err := s.objects.GetObject(ctx, s.bucket, key)
	if err != nil {
		return nil, fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
	}
	return body, nil
}

// PutBackupLog stores the log of a dry run of a backup, which is compressed with gzip. That of a backup is stored with the backup.
func (s *Store) PutBackupLog(ctx context.Context, name string, log io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.log, log)
}

// PutBackupResults stores the errors and warnings of a backup, from EncodeJSON.
func (s *Store) PutBackupResults(ctx context.Context, name string, results io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.results, results)
}

// PutBackupResourceList stores the items of a backup by kind, from EncodeJSON.
func (s *Store) PutBackupResourceList(ctx context.Context, name string, list io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.resourceList, list)
}

// PutBackupVolumeInfo replaces the file volumeinfo of a backup.
func (s *Store) PutBackupVolumeInfo(ctx context.Context, name string, infos io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.volumeInfo, infos)
}

// PutPodVolumeBackups stores the list of PodVolumeBackups of a backup.
func (s *Store) PutPodVolumeBackups(ctx context.Context, name string, list io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.podVolumeBackups, list)
}

// PutBackupItemOperations stores the asynchronous operations of a backup, from EncodeJSON.
func (s *Store) PutBackupItemOperations(ctx context.Context, name string, operations io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.itemOperations, operations)
}

// PutRestoreLog stores the log of a restore, which is compressed with gzip.
func (s *Store) PutRestoreLog(ctx context.Context, name string, log io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.restoreLog, log)
}

// PutRestoreResults stores the errors and warnings of a restore, from EncodeJSON.
func (s *Store) PutRestoreResults(ctx context.Context, name string, results io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.restoreResults, results)
}

// PutRestoreResourceList stores the items of a restore by kind, from EncodeJSON.
func (s *Store) PutRestoreResourceList(ctx context.Context, name string, list io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.restoreResourceList, list)
}

// PutRestoreItemOperations stores the asynchronous operations of a restore, from EncodeJSON.
func (s *Store) PutRestoreItemOperations(ctx context.Context, name string, operations io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.restoreItemOperations, operations)
}

// PutRestoreVolumeInfo stores of what the volumes of a restore were made, from EncodeJSON.
func (s *Store) PutRestoreVolumeInfo(ctx context.Context, name string, infos io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.restoreVolumeInfo, infos)
}

// PutRestoreDryRun stores what a dry run of a restore has found out, which is compressed with gzip.
func (s *Store) PutRestoreDryRun(ctx context.Context, name string, outcomes io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.restoreDryRun, outcomes)
}

func (s *Store) putNamed(ctx context.Context, name string, key func(string) string, body io.ReadSeeker) error {
	if err := checkName(name); err != nil {
		return err
	}
	return s.put(ctx, key(name), body)
}

// gunzipped is a gzip reader whose Close closes the underlying body.
type gunzipped struct {
	*gzip.Reader
	body io.Closer
}

func (g *gunzipped) Close() error { return g.body.Close() }

// limitedReader returns an error at its limit, where io.LimitReader returns io.EOF.
type limitedReader struct {
	r         io.Reader
	left, max int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return 0, fmt.Errorf("it is larger than the limit of %d bytes", l.max)
	}
	return n, err
}
