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

// Operation is the state of one operation, as a Store keeps it.
type Operation struct {
	// ID identifies the operation to the host. The function ID computes it.
	ID string
	// Runner is the name of the runner that started the operation.
	Runner string
	// Key is the key under which the operation was started.
	Key string
	// Input is the input of the work, as JSON.
	Input json.RawMessage
	// Owner identifies the process that works on the operation. It is empty if none does.
	Owner string
	// Heartbeat counts the heartbeats of the owner.
	Heartbeat int64
	// Attempt counts the processes that have worked on the operation, from 1.
	Attempt int64
	// CancelRequested is set once the host has asked to cancel the operation.
	CancelRequested bool
	// Progress is the progress at the last heartbeat.
	Progress framework.OperationProgress
	// Version identifies this state of the operation. The store sets it in Create, Get and Update; Encode omits it.
	Version string
}

// ID returns the id of the operation that the runner with the given name starts under key. It depends on nothing else.
// It is at most 64 characters long and valid as the name of a file and of a Kubernetes object.
func ID(runner, key string) string {
	sum := sha256.Sum256([]byte(runner + "\x00" + key))
	return "op-" + hex.EncodeToString(sum[:16])
}

// idPattern matches the results of ID.
var idPattern = regexp.MustCompile(`^op-[0-9a-f]{32}$`)

// Key returns a key for an item of a backup or restore, for kinds whose input has none. It is always the same for the
// same item of the same backup or restore, in any version of the item's API, and differs from all other keys.
func Key(owner metav1.Object, item *unstructured.Unstructured) string {
	identity := string(owner.GetUID())
	if identity == "" {
		identity = owner.GetNamespace() + "/" + owner.GetName()
	}
	return strings.Join([]string{identity, item.GroupVersionKind().GroupKind().String(), item.GetNamespace(),
		item.GetName()}, "/")
}

// format is the version of the format that Encode writes.
const format = 1

// encoded is the JSON form of an Operation.
type encoded struct {
	Format          int             `json:"format"`
	ID              string          `json:"id"`
	Runner          string          `json:"runner"`
	Key             string          `json:"key"`
	Input           json.RawMessage `json:"input"`
	Owner           string          `json:"owner,omitempty"`
	Heartbeat       int64           `json:"beat,omitempty"`
	Attempt         int64           `json:"attempt"`
	CancelRequested bool            `json:"cancelAsked,omitempty"`
	Completed       bool            `json:"completed,omitempty"`
	Err             string          `json:"err,omitempty"`
	NCompleted      int64           `json:"nCompleted,omitempty"`
	NTotal          int64           `json:"nTotal,omitempty"`
	Units           string          `json:"units,omitempty"`
	Description     string          `json:"description,omitempty"`
	LastLines       string          `json:"lastLines,omitempty"`
	Started         time.Time       `json:"started,omitzero"`
	Updated         time.Time       `json:"updated,omitzero"`
}

// Encode returns the operation as JSON, without its Version. Stores use it.
func Encode(operation *Operation) ([]byte, error) {
	progress := operation.Progress
	content, err := json.Marshal(encoded{
		Format: format, ID: operation.ID, Runner: operation.Runner, Key: operation.Key, Input: operation.Input,
		Owner: operation.Owner, Heartbeat: operation.Heartbeat, Attempt: operation.Attempt,
		CancelRequested: operation.CancelRequested,
		Completed:       progress.Completed, Err: progress.Err, NCompleted: progress.NCompleted, NTotal: progress.NTotal,
		Units: progress.Units, Description: progress.Description, LastLines: progress.LastLines, Started: progress.Started,
		Updated: progress.Updated,
	})
	if err != nil {
		return nil, fmt.Errorf("encode operation %s: %w", operation.ID, err)
	}
	return content, nil
}

// Decode returns the operation that Encode has encoded as content. It returns an error for content that Encode cannot
// have written.
func Decode(content []byte) (*Operation, error) {
	var e encoded
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("unexpected end of its JSON")
		}
		return nil, fmt.Errorf("decode an operation: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("decode an operation: unexpected data after its JSON")
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("decode an operation: %w", err)
	}
	return &Operation{
		ID: e.ID, Runner: e.Runner, Key: e.Key, Input: e.Input,
		Owner: e.Owner, Heartbeat: e.Heartbeat, Attempt: e.Attempt, CancelRequested: e.CancelRequested,
		Progress: framework.OperationProgress{
			Completed: e.Completed, Err: e.Err, NCompleted: e.NCompleted, NTotal: e.NTotal,
			Units: e.Units, Description: e.Description, LastLines: e.LastLines, Started: e.Started, Updated: e.Updated,
		},
	}, nil
}

func (e encoded) check() error {
	switch {
	case e.Format != format:
		return fmt.Errorf("its format is %d, want %d", e.Format, format)
	case e.ID != ID(e.Runner, e.Key):
		return fmt.Errorf("its id is %q, want %s, as computed from its runner and key", e.ID, ID(e.Runner, e.Key))
	case e.Heartbeat < 0 || e.Attempt < 1 || e.NCompleted < 0 || e.NTotal < 0:
		return fmt.Errorf("beat is %d, attempt %d, nCompleted %d, nTotal %d: none may be negative, and attempt must be at "+
			"least 1",
			e.Heartbeat, e.Attempt, e.NCompleted, e.NTotal)
	case len(e.Input) == 0:
		return errors.New("it has no input")
	case e.Completed && e.Owner != "":
		return fmt.Errorf("it has completed, but its owner is %s", e.Owner)
	}
	return nil
}
