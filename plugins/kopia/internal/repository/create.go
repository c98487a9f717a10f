package repository

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/encryption"
	"github.com/kopia/kopia/repo/format"
	"github.com/kopia/kopia/repo/hashing"
	"github.com/kopia/kopia/repo/maintenance"
	"github.com/kopia/kopia/repo/splitter"
)

// sealBlob is the blob by which Velero recognises a repository that is complete.
const sealBlob = "udmrepo.Repository"

// State is what a storage has.
type State int

const (
	// Nothing is a storage without blobs.
	Nothing State = iota
	// Foreign is a storage whose blobs are not of a repository.
	Foreign
	// Begun is a repository that somebody has not completed for Velero, or one of kopia's own program.
	Begun
	// Complete is a repository that Velero takes for complete.
	Complete
)

// seal is the content of sealBlob.
type seal struct {
	UniqueID []byte `json:"uniqueID"`
}

// Look returns what a storage has. It needs no password.
func Look(ctx context.Context, st blob.Storage) (State, error) {
	stored, err := read(ctx, st, format.KopiaRepositoryBlobID)
	if errors.Is(err, blob.ErrBlobNotFound) {
		return empty(ctx, st)
	}
	if err != nil {
		return Nothing, err
	}
	known, err := ParseFormat(stored)
	if err != nil {
		return Nothing, err
	}
	stored, err = read(ctx, st, sealBlob)
	if errors.Is(err, blob.ErrBlobNotFound) {
		return Begun, nil
	}
	if err != nil {
		return Nothing, err
	}
	return Complete, CheckSeal(stored, known)
}

// Format returns the blob with the format of a repository, encrypted in part.
func Format(ctx context.Context, st blob.Storage) ([]byte, error) {
	return read(ctx, st, format.KopiaRepositoryBlobID)
}

// DamagedError is the error for a repository whose first blobs cannot be understood.
type DamagedError struct{ Reason string }

// Error implements error.
func (e *DamagedError) Error() string { return "the repository is damaged: " + e.Reason }

// ParseFormat returns the unique id in the blob kopia.repository.
func ParseFormat(stored []byte) ([]byte, error) {
	parsed, err := format.ParseKopiaRepositoryJSON(stored)
	if err != nil {
		return nil, &DamagedError{format.KopiaRepositoryBlobID + " is not JSON of kopia"}
	}
	if len(parsed.UniqueID) == 0 {
		return nil, &DamagedError{format.KopiaRepositoryBlobID + " has no uniqueID"}
	}
	return parsed.UniqueID, nil
}

// CheckSeal returns an error if the blob udmrepo.Repository is not of the repository with a unique id.
func CheckSeal(stored, uniqueID []byte) error {
	var s seal
	if err := json.Unmarshal(stored, &s); err != nil {
		return &DamagedError{sealBlob + ` is not JSON like {"uniqueID": "..."}`}
	}
	if !bytes.Equal(s.UniqueID, uniqueID) {
		return &DamagedError{fmt.Sprintf("%s has another uniqueID than %s", sealBlob, format.KopiaRepositoryBlobID)}
	}
	return nil
}

func empty(ctx context.Context, st blob.Storage) (State, error) {
	found := errors.New("found")
	err := st.ListBlobs(ctx, "", func(blob.Metadata) error { return found })
	if errors.Is(err, found) {
		return Foreign, nil
	}
	return Nothing, err
}

// Initialize makes a repository in an empty storage. Complete has to follow.
func Initialize(ctx context.Context, st blob.Storage, password string) error {
	return repo.Initialize(ctx, st, &repo.NewRepositoryOptions{
		BlockFormat: format.ContentFormat{
			MutableParameters: format.MutableParameters{Version: format.FormatVersion3},
			Hash:              hashing.DefaultAlgorithm, Encryption: encryption.DefaultAlgorithm,
		},
		ObjectFormat: format.ObjectFormat{Splitter: splitter.DefaultAlgorithm},
	}, password)
}

// Finish makes an open repository one that Velero takes for complete: its maintenance belongs to Velero's client, and
// it has a seal.
func Finish(ctx context.Context, r *Repository, st blob.Storage, fullInterval time.Duration) error {
	if err := setMaintenance(ctx, r, fullInterval, true); err != nil {
		return err
	}
	text, err := json.Marshal(seal{r.UniqueID()})
	if err != nil {
		return err
	}
	return st.PutBlob(ctx, sealBlob, data(text), blob.PutOptions{})
}

// setMaintenance makes the maintenance of a repository that of Velero's client, and sets the interval of full
// maintenance unless it is 0. Without own, it changes only the interval.
func setMaintenance(ctx context.Context, r *Repository, fullInterval time.Duration, own bool) error {
	params, err := maintenance.GetParams(ctx, r)
	if err != nil {
		return fmt.Errorf("read the parameters of the maintenance: %w", err)
	}
	want := *params
	if owner := r.ClientOptions().UsernameAtHost(); own && params.Owner != owner {
		want = maintenance.DefaultParams()
		want.Owner = owner
	}
	if fullInterval > 0 {
		want.FullCycle.Interval = fullInterval
	}
	if want.Owner == params.Owner && want.FullCycle == params.FullCycle {
		return nil
	}
	return repo.WriteSession(ctx, r, repo.WriteSessionOptions{Purpose: "parameters of the maintenance"},
		func(ctx context.Context, w repo.RepositoryWriter) error { return maintenance.SetParams(ctx, w, &want) })
}

// read returns the content of a blob.
func read(ctx context.Context, st blob.Reader, id blob.ID) ([]byte, error) {
	var buffer buffer
	err := st.GetBlob(ctx, id, 0, -1, &buffer)
	return buffer.Bytes(), err
}

// buffer implements blob.OutputBuffer.
type buffer struct{ bytes.Buffer }

// Length implements blob.OutputBuffer.
func (b *buffer) Length() int { return b.Len() }

// data implements blob.Bytes.
type data []byte

// Length implements blob.Bytes.
func (d data) Length() int { return len(d) }

// WriteTo implements blob.Bytes.
func (d data) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(d)
	return int64(n), err
}

// Reader implements blob.Bytes.
func (d data) Reader() io.ReadSeekCloser { return reader{bytes.NewReader(d)} }

type reader struct{ *bytes.Reader }

// Close implements io.Closer.
func (reader) Close() error { return nil }
