package store

import (
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
	"github.com/cleat-dev/cleat/versioning"
)

// EncodeJSON encodes an artifact as Velero does: compact JSON with a trailing newline, compressed with gzip at the
// default level. The list of a large backup's items is not held as JSON in memory.
func EncodeJSON[T any](value T) (io.ReadSeeker, error) {
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	err := json.MarshalWrite(compressed, value, jsonv1.DefaultOptionsV1())
	if err == nil {
		_, err = compressed.Write([]byte("\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("encode an artifact of type %T: %w", value, err)
	}
	if err := compressed.Close(); err != nil {
		return nil, fmt.Errorf("compress an artifact of type %T: %w", value, err)
	}
	return bytes.NewReader(buffer.Bytes()), nil
}

// Lists are lists of objects, by the kind of the objects.
type Lists interface {
	Kinds() []string
	Of(kind string) iter.Seq[string]
}

// EncodeLists writes lists as one JSON object. None of them is held in memory.
func EncodeLists(out *jsontext.Encoder, l Lists) error {
	if err := out.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, kind := range l.Kinds() {
		if err := cmp.Or(out.WriteToken(jsontext.String(kind)), out.WriteToken(jsontext.BeginArray)); err != nil {
			return err
		}
		for entry := range l.Of(kind) {
			if err := out.WriteToken(jsontext.String(entry)); err != nil {
				return err
			}
		}
		if err := out.WriteToken(jsontext.EndArray); err != nil {
			return err
		}
	}
	return out.WriteToken(jsontext.EndObject)
}

// PutJSON encodes an artifact and stores it with one of the methods of a Store that put a file of a backup or restore.
func PutJSON[T any](
	ctx context.Context, put func(ctx context.Context, name string, content io.ReadSeeker) error, name string, value T,
) error {
	content, err := EncodeJSON(value)
	if err != nil {
		return err
	}
	return put(ctx, name, content)
}

// DecodeJSON reads a file of a backup or restore that is a JSON object. It returns the zero value of T if the file does
// not exist, because all of them are optional.
func DecodeJSON[T any](ctx context.Context, s *Store, kind velerov1.DownloadTargetKind, name string) (T, error) {
	var value T
	body, err := s.Get(ctx, kind, name)
	if errors.Is(err, ErrNotFound) {
		return value, nil
	}
	if err != nil {
		return value, err
	}
	defer func() { _ = body.Close() }() // only read from
	if value, err = foreign.Decode[T](body, LimitsOf(kind)); err != nil {
		return value, fmt.Errorf("decode %s of %q: %w", kind, name, markDamage(err))
	}
	return value, nil
}

// DecodeList reads a file of a backup or restore that is a JSON list. It returns none if the file does not exist, or is
// damaged.
func DecodeList[S ~[]E, E any](
	ctx context.Context, s *Store, kind velerov1.DownloadTargetKind, name string,
) (S, error) {
	var list S
	for element, err := range listOf[E](string(kind), name, LimitsOf(kind),
		func() (io.ReadCloser, error) { return s.Get(ctx, kind, name) }) {
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	return list, nil
}

// PodVolumeBackups reads the list of PodVolumeBackups of a backup one after the other. No DownloadRequest can request
// it. The last pair may have an error instead. There are none if the list does not exist.
func PodVolumeBackups[E any](ctx context.Context, s *Store, name string) iter.Seq2[E, error] {
	return listOf[E]("PodVolumeBackups", name, podVolumeLimits(), func() (io.ReadCloser, error) {
		if err := checkName(name); err != nil {
			return nil, err
		}
		return s.gunzip(ctx, s.layout.podVolumeBackups(name))
	})
}

func listOf[E any](kind, name string, limits foreign.Limits, open func() (io.ReadCloser, error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		body, err := open()
		if errors.Is(err, ErrNotFound) {
			return
		}
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = body.Close() }() // only read from
		for element, err := range foreign.List[E](body, limits) {
			if err != nil {
				err = fmt.Errorf("decode %s of %q: %w", kind, name, markDamage(err))
			}
			if !yield(element, err) {
				return
			}
		}
	}
}

// DecodeMetadata decodes a velero-backup.json, which ErrDamaged is about if it is not the JSON of a Backup.
func DecodeMetadata(metadata []byte, into any) error {
	if err := foreign.Unmarshal(metadata, into, metadataLimits()); err != nil {
		return markDamage(err)
	}
	return nil
}

// markDamage makes an error that content has caused, rather than reading it, ErrDamaged too.
func markDamage(err error) error {
	_, deflate := errors.AsType[flate.CorruptInputError](err)
	switch {
	case deflate, errors.Is(err, foreign.ErrInvalid), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
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

// createBackupMetadata stores velero-backup.json if there is none. It replaces the file of an earlier attempt of the
// same backup, and returns ErrBackupExists if the file belongs to another backup.
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

// mustHold returns an error unless velero-backup.json has the stored content. If an earlier attempt of the same backup
// has overwritten it, mustHold stores it again.
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
			return fmt.Errorf("store %s in bucket %q: another process writes it at the same time", s.layout.metadata(name),
				s.bucket)
		}
		if err := s.PutBackupMetadata(ctx, name, metadata); err != nil {
			return err
		}
	}
}

// isSame reports whether the stored velero-backup.json certainly belongs to the backup of metadata.
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
	return s.readWhole(key, body, metadataLimits().Bytes)
}

// MetadataOfListed reads velero-backup.json as BackupMetadata does, with one call of the object store instead of two if
// it exists, as it does for most listed backups. It is not for patient stores, which repeat the call for a file that is
// missing.
func (s *Store) MetadataOfListed(ctx context.Context, name string) (metadata []byte, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	key := s.layout.metadata(name)
	body, err := s.get(ctx, key)
	if err == nil {
		if metadata, err = s.readWhole(key, body, metadataLimits().Bytes); err == nil {
			return metadata, nil
		}
	}
	if found, errExists := s.exists(ctx, key); errExists == nil && !found {
		return nil, fmt.Errorf("%s in bucket %q: %w", key, s.bucket, ErrNotFound)
	}
	return nil, err
}

// readWhole reads an object that has at most so many bytes, and closes it.
func (s *Store) readWhole(key string, body io.ReadCloser, most int64) ([]byte, error) {
	defer func() { _ = body.Close() }() // only read from
	content, err := io.ReadAll(io.LimitReader(body, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%w: it is larger than the limit of %d bytes", ErrDamaged, most)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
	}
	return content, nil
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

func uidOf(metadata []byte) (types.UID, error) {
	var backup struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	err := DecodeMetadata(metadata, &backup)
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

// BackupItemSums streams the sums of the items in the archive of a backup, uncompressed. It returns ErrNotFound if there
// are none.
func (s *Store) BackupItemSums(ctx context.Context, backup string) (io.ReadCloser, error) {
	if err := checkName(backup); err != nil {
		return nil, err
	}
	return s.gunzip(ctx, s.layout.itemSums(backup))
}

// gunzip returns the uncompressed content of an object.
func (s *Store) gunzip(ctx context.Context, key string) (io.ReadCloser, error) {
	body, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.gunzipped(key, body)
}

// gunzipped returns the content of an object uncompressed.
func (s *Store) gunzipped(key string, body io.ReadCloser) (io.ReadCloser, error) {
	plain, err := gzip.NewReader(body)
	if err != nil {
		_ = body.Close() // only read from
		return nil, fmt.Errorf("read %s in bucket %q, want gzip: %w", key, s.bucket, markDamage(err))
	}
	return &gunzipped{Reader: plain, body: body}, nil
}

// open returns the content of an object. It first checks that the object exists, because an error of the hub's
// GetObject does not distinguish a missing object from a failure.
func (s *Store) open(ctx context.Context, key string) (io.ReadCloser, error) {
	switch found, err := s.exists(ctx, key); {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("%s in bucket %q: %w", key, s.bucket, ErrNotFound)
	}
	return s.get(ctx, key)
}

// get returns the content of an object that exists.
func (s *Store) get(ctx context.Context, key string) (io.ReadCloser, error) {
	body, err := s.objects.GetObject(ctx, s.bucket, key)
	if err != nil {
		return nil, fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
	}
	return body, nil
}

// PutBackupLog stores the log of a dry run of a backup, which is compressed with gzip. That of a backup is stored with
// the backup.
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

// PutBackupItemSums stores the sums of the items in the archive of a backup, from archive.Sums.
func (s *Store) PutBackupItemSums(ctx context.Context, name string, sums io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.itemSums, sums)
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

// PutRestoreVolumeInfo stores the sources of the volumes of a restore, from EncodeJSON.
func (s *Store) PutRestoreVolumeInfo(ctx context.Context, name string, infos io.ReadSeeker) error {
	return s.putNamed(ctx, name, s.layout.restoreVolumeInfo, infos)
}

// PutRestoreDryRun stores the result of a dry run of a restore, which is compressed with gzip.
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
