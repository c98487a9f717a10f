package operations

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
)

// Operation is what a Store keeps of one operation.
type Operation struct {
	// ID is what the host asks about; see the function ID.
	ID string
	// Runner is the name of the runner that began it.
	Runner string
	// Key is what it was begun under.
	Key string
	// Input is what it works on, JSON.
	Input json.RawMessage
	// Owner is the process that works on it; empty when none does.
	Owner string
	// Beat counts the owner's signs of life.
	Beat int64
	// Attempt counts the processes that have worked on it, from 1.
	Attempt int64
	// CancelAsked tells that it is to end.
	CancelAsked bool
	// Progress is how far it was at the last beat.
	Progress framework.OperationProgress
	// Version tells states of the operation apart. It is the store's: set by all of its methods, and not encoded.
	Version string
}

// ID is the id of the operation that the runner of that name begins under key: always the same. It is no longer than 64
// characters and fit to name a file or a Kubernetes object.
func ID(runner, key string) string {
	sum := sha256.Sum256([]byte(runner + "\x00" + key))
	return "op-" + hex.EncodeToString(sum[:16])
}

// idPattern is what ID makes.
var idPattern = regexp.MustCompile(`^op-[0-9a-f]{32}$`)

// Key is the key for an item of a backup or restore, for kinds whose input has none: the same for the same item of the same
// backup, and of no other.
func Key(owner metav1.Object, item *unstructured.Unstructured) string {
	which := string(owner.GetUID())
	if which == "" {
		which = owner.GetNamespace() + "/" + owner.GetName()
	}
	return strings.Join([]string{which, item.GroupVersionKind().GroupKind().String(), item.GetNamespace(), item.GetName()}, "/")
}

// format is the version of what Encode writes.
const format = 1

// encoded is an Operation as JSON.
type encoded struct {
	Format      int             `json:"format"`
	ID          string          `json:"id"`
	Runner      string          `json:"runner"`
	Key         string          `json:"key"`
	Input       json.RawMessage `json:"input"`
	Owner       string          `json:"owner,omitempty"`
	Beat        int64           `json:"beat,omitempty"`
	Attempt     int64           `json:"attempt"`
	CancelAsked bool            `json:"cancelAsked,omitempty"`
	Completed   bool            `json:"completed,omitempty"`
	Err         string          `json:"err,omitempty"`
	NCompleted  int64           `json:"nCompleted,omitempty"`
	NTotal      int64           `json:"nTotal,omitempty"`
	Units       string          `json:"units,omitempty"`
	Description string          `json:"description,omitempty"`
	Started     time.Time       `json:"started,omitzero"`
	Updated     time.Time       `json:"updated,omitzero"`
}

// Encode is the operation as JSON, for stores; its Version is not in it.
func Encode(operation *Operation) ([]byte, error) {
	progress := operation.Progress
	content, err := json.Marshal(encoded{
		Format: format, ID: operation.ID, Runner: operation.Runner, Key: operation.Key, Input: operation.Input,
		Owner: operation.Owner, Beat: operation.Beat, Attempt: operation.Attempt, CancelAsked: operation.CancelAsked,
		Completed: progress.Completed, Err: progress.Err, NCompleted: progress.NCompleted, NTotal: progress.NTotal,
		Units: progress.Units, Description: progress.Description, Started: progress.Started, Updated: progress.Updated,
	})
	if err != nil {
		return nil, fmt.Errorf("encode operation %s: %w", operation.ID, err)
	}
	return content, nil
}

// Decode is the operation that Encode made content of. It is strict: what no Encode has written is an error.
func Decode(content []byte) (*Operation, error) {
	var e encoded
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return nil, fmt.Errorf("decode an operation: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("decode an operation: there is more after its end")
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("decode an operation: %w", err)
	}
	return &Operation{
		ID: e.ID, Runner: e.Runner, Key: e.Key, Input: e.Input,
		Owner: e.Owner, Beat: e.Beat, Attempt: e.Attempt, CancelAsked: e.CancelAsked,
		Progress: framework.OperationProgress{
			Completed: e.Completed, Err: e.Err, NCompleted: e.NCompleted, NTotal: e.NTotal,
			Units: e.Units, Description: e.Description, Started: e.Started, Updated: e.Updated,
		},
	}, nil
}

func (e encoded) check() error {
	switch {
	case e.Format != format:
		return fmt.Errorf("it has format %d, want %d", e.Format, format)
	case e.ID != ID(e.Runner, e.Key):
		return fmt.Errorf("its id is %q, want %s, which follows from its runner and key", e.ID, ID(e.Runner, e.Key))
	case e.Beat < 0 || e.Attempt < 1 || e.NCompleted < 0 || e.NTotal < 0:
		return fmt.Errorf("beat %d, attempt %d, nCompleted %d and nTotal %d must not be negative, nor attempt 0",
			e.Beat, e.Attempt, e.NCompleted, e.NTotal)
	case len(e.Input) == 0:
		return errors.New("it has no input")
	case e.Completed && e.Owner != "":
		return fmt.Errorf("it has ended, and %s works on it", e.Owner)
	}
	return nil
}
