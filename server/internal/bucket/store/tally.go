package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// Sum is what is known of a stored file.
type Sum struct {
	SHA256 string // hexadecimal
	Size   int64  // in bytes; -1 if it is not known
}

// is reports whether a sum is a wanted one, whose size may not be known.
func (s Sum) is(want Sum) bool {
	return s.SHA256 == want.SHA256 && (want.Size < 0 || s.Size == want.Size)
}

// Tally has the sums of the files of a backup by their names in its directory, as the server has stored them. The copy
// in the cluster, velerov1.FilesAnnotation, shows later whether a file was changed.
type Tally map[string]Sum

// String returns the tally as the value of an annotation.
func (t Tally) String() string {
	entries := make([]string, 0, len(t))
	for _, name := range slices.Sorted(maps.Keys(t)) {
		entry := name + "=" + t[name].SHA256
		if size := t[name].Size; size >= 0 {
			entry += ":" + strconv.FormatInt(size, 10)
		}
		entries = append(entries, entry)
	}
	return strings.Join(entries, ",")
}

// ParseTally returns the tally in the value of an annotation. It ignores everything else. A former server has noted
// kinds of downloads without sizes instead of names.
func ParseTally(text string) Tally {
	found := Tally{}
	for entry := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || value == "" {
			continue
		}
		sum := Sum{SHA256: value, Size: -1}
		if digest, size, sized := strings.Cut(value, ":"); sized {
			n, err := strconv.ParseInt(size, 10, 64)
			if err != nil || n < 0 || digest == "" {
				continue
			}
			sum = Sum{digest, n}
		}
		found[name] = sum
	}
	return found
}

// TallyOf returns what is noted in a Backup.
func TallyOf(b *velerov1.Backup) Tally { return ParseTally(b.Annotations[velerov1.FilesAnnotation]) }

// Noted returns the tallies in a Backup: each of its files is as one of them says.
func Noted(b *velerov1.Backup) []Tally {
	return []Tally{TallyOf(b), ParseTally(b.Annotations[velerov1.PendingFilesAnnotation])}
}

// Note adds the sums of files to those that are noted in a Backup. A Backup that another kind of server has run has no
// such note, and gets none. With the sums of all files, none is pending any more.
func (t Tally) Note(b *velerov1.Backup) {
	if _, own := b.Annotations[velerov1.FilesAnnotation]; !own {
		return
	}
	all := TallyOf(b).With(t)
	b.Annotations[velerov1.FilesAnnotation] = all.String()
	if all.IsFinal() {
		delete(b.Annotations, velerov1.PendingFilesAnnotation)
	}
}

// With returns the sums of both tallies; those of newer count.
func (t Tally) With(newer Tally) Tally {
	all := maps.Clone(t)
	maps.Copy(all, newer)
	return all
}

// IsFinal reports whether a tally has velero-backup.json, which is noted as the last file of a backup.
func (t Tally) IsFinal() bool {
	_, ok := t[MetadataFile]
	return ok
}

// Digest returns the digest of the file of a backup that a DownloadRequest of the kind may request; "" if it is not
// known.
func (t Tally) Digest(kind velerov1.DownloadTargetKind, backup string) string {
	if key, err := newLayout("").download(kind, backup); err == nil {
		if sum, ok := t[nameIn(key)]; ok {
			return sum.SHA256
		}
	}
	return t[string(kind)].SHA256
}

// nameIn returns the name of the file that has a key.
func nameIn(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// MetadataTally returns the tally of a velero-backup.json.
func MetadataTally(metadata []byte) Tally {
	sum := sha256.Sum256(metadata)
	return Tally{MetadataFile: {SHA256: hex.EncodeToString(sum[:]), Size: int64(len(metadata))}}
}

// Record keeps the sums of the files of one backup that are stored or deleted through a Store. It is safe for concurrent
// use.
type Record struct {
	dir string

	mu   sync.Mutex
	sums Tally
}

// Recording returns the location with a record of what is stored of a backup.
func (s *Store) Recording(backup string) (*Store, *Record) {
	record := &Record{dir: s.layout.backupDir(backup), sums: Tally{}}
	return s.With(func(objects objectstore.Store) objectstore.Store { return recorded{objects, record} }), record
}

// Tally returns the sums of the files that were stored.
func (r *Record) Tally() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.sums)
}

func (r *Record) put(key string, sum Sum) {
	if name, ok := strings.CutPrefix(key, r.dir); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sums[name] = sum
	}
}

func (r *Record) deleted(key string) {
	if name, ok := strings.CutPrefix(key, r.dir); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sums, name)
	}
}

// recorded is an object store whose writes are recorded.
type recorded struct {
	objectstore.Store
	record *Record
}

// PutObject implements objectstore.Store.
func (s recorded) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	counted := newSummed(body)
	var read io.Reader = counted
	if _, ok := body.(io.Seeker); ok {
		read = summedFromStart{counted}
	}
	if err := s.Store.PutObject(ctx, bucket, key, read); err != nil {
		return err
	}
	s.record.put(key, counted.total())
	return nil
}

// DeleteObject implements objectstore.Store.
func (s recorded) DeleteObject(ctx context.Context, bucket, key string) error {
	s.record.deleted(key)
	return s.Store.DeleteObject(ctx, bucket, key)
}

// summed is a body whose bytes are summed while they are read.
type summed struct {
	io.Reader
	sum  hash.Hash
	size int64
}

// summedFromStart is a summed body that can be read again.
type summedFromStart struct{ *summed }

func newSummed(body io.Reader) *summed { return &summed{Reader: body, sum: sha256.New()} }

// Read implements io.Reader.
func (s *summed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.sum.Write(p[:n]) // has no errors
	s.size += int64(n)
	return n, err
}

func (s *summed) total() Sum { return Sum{encodeSum(s.sum), s.size} }

// Seek implements io.Seeker. It returns to the start only.
func (s summedFromStart) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("the content can be read from its start only")
	}
	again, _ := s.Reader.(io.Seeker)
	if _, err := again.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	s.sum.Reset()
	s.size = 0
	return 0, nil
}

func encodeSum(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// SumOf reads a file of a backup, by its name in the directory of the backup, and returns its sum. It returns
// ErrNotFound if there is none.
func (s *Store) SumOf(ctx context.Context, backup, file string) (Sum, error) {
	if err := checkName(backup); err != nil {
		return Sum{}, err
	}
	return s.sumOf(ctx, s.layout.backupDir(backup)+file)
}

func (s *Store) sumOf(ctx context.Context, key string) (Sum, error) {
	body, err := s.open(ctx, key)
	if err != nil {
		return Sum{}, err
	}
	defer func() { _ = body.Close() }() // only read from
	read := newSummed(body)
	if _, err := io.Copy(io.Discard, read); err != nil {
		return Sum{}, fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
	}
	return read.total(), nil
}
