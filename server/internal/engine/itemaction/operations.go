package itemaction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
	"github.com/cleat-dev/cleat/versioning"
)

// recordTimeout bounds the record of an operation that was started without a key. The record is written even if the
// run ends meanwhile, because there is no other record of the operation.
const recordTimeout = time.Minute

// Starter is an action that may start an operation when it is called.
type Starter interface {
	Name() string
	Starts() versioning.Starts
}

// Operations are the operations that the actions of one run have started. Each is recorded in the journal: with a key
// before the action is called, otherwise immediately after the call. It is followed from then on. The methods are safe
// for concurrent use.
type Operations struct {
	journal  *operation.Journal
	followed *operation.Group
	now      func() time.Time

	// Set by EndedWith.
	ended    bool
	expected map[expected]bool

	mu   sync.Mutex
	all  []operation.Operation
	item map[started]framework.ResourceIdentifier
}

// errEnded is wrapped by the error of an action that starts an operation after the operations of the run have ended.
var errEnded = errors.New("the operations of the run have ended, no other is waited for")

// expected identifies an action and an item for which it may be called after EndedWith.
type expected struct {
	action string
	item   framework.ResourceIdentifier
}

// started identifies an operation.
type started struct{ action, id string }

// NewOperations returns the operations of a run, which has none yet. They are added to the journal and the group,
// which may be nil.
func NewOperations(journal *operation.Journal, followed *operation.Group, now func() time.Time) *Operations {
	return &Operations{journal: journal, followed: followed, now: now, item: map[started]framework.ResourceIdentifier{}}
}

// EndedWith declares that all operations of the run have ended. From then on it is an error if an action starts
// another one, which is in the journal nevertheless. It is no error if an action returns one of the given operations
// again. EndedWith must be called first.
func (o *Operations) EndedWith(all []operation.Operation) {
	o.ended, o.expected = true, map[expected]bool{}
	for _, op := range all {
		o.item[started{op.Action, op.ID}] = op.Item
		o.expected[expected{op.Action, op.Item}] = true
	}
}

// Expects reports whether to call an action for an item after EndedWith. It returns false if the action would only
// start an operation.
func (o *Operations) Expects(action Starter, on framework.ResourceIdentifier) bool {
	return action.Starts() != versioning.Keyed || o.expected[expected{action.Name(), on}]
}

// Call calls an action for an item by execute, which returns the ID of the operation that the action started, or "",
// and its post-operation items. sent is the JSON of the item, whose identity is recorded. It is an error if the action
// returns the operation of another item. After an error, an operation may have been started nevertheless.
func (o *Operations) Call(
	ctx context.Context, action Starter, on framework.ResourceIdentifier, sent []byte,
	execute func() (id string, post []framework.ResourceIdentifier, err error),
) error {
	if action.Starts() != versioning.Keyed {
		id, post, err := attended(ctx, action, on, execute)
		if err != nil || id == "" {
			return err
		}
		return o.started(ctx, action, on, sent, id, post)
	}
	start, err := startOf(action, on, sent)
	if err != nil {
		return err
	}
	entry, err := o.journal.Begin(ctx, start)
	if err != nil {
		return fmt.Errorf("record that %s is asked to start an operation: %w", action.Name(), err)
	}
	id, post, err := attended(ctx, action, on, execute)
	if err == nil && id != "" {
		err = o.add(action, on, id, post, entry.Began())
	}
	switch {
	case errors.Is(err, errEnded):
		entry.End(id, nil)
	case err != nil:
		entry.End("", err)
	default:
		entry.End(id, nil)
	}
	return err
}

// attended calls execute. It records a wait if the action takes long.
func attended(
	ctx context.Context, action Starter, on framework.ResourceIdentifier, execute func() (id string,
		post []framework.ResourceIdentifier, err error),
) (id string, post []framework.ResourceIdentifier, err error) {
	defer waits.Begin(ctx, "action %s, which works on %s", action.Name(), on).End()
	return execute()
}

// started adds an operation without a key.
func (o *Operations) started(
	ctx context.Context, action Starter, on framework.ResourceIdentifier, sent []byte, id string,
	post []framework.ResourceIdentifier,
) error {
	late := o.add(action, on, id, post, time.Time{})
	if late != nil && !errors.Is(late, errEnded) {
		return late
	}
	start, err := startOf(action, on, sent)
	if err != nil {
		return errors.Join(late, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := o.journal.Started(ctx, start, id); err != nil {
		return errors.Join(late, fmt.Errorf("record operation %s, which %s has started: %w", id, action.Name(), err))
	}
	return late
}

// add adds an operation, unless the action has already returned it for the same item. created is zero if the operation
// was just created.
func (o *Operations) add(
	action Starter, on framework.ResourceIdentifier, id string, post []framework.ResourceIdentifier, created time.Time,
) error {
	key := started{action.Name(), id}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch first, known := o.item[key]; {
	case known && first == on:
		return nil
	case known:
		return fmt.Errorf("%s returned operation %s, which it has started for %s; want an operation of its own for "+
			"each item", action.Name(), id, first)
	}
	if o.ended {
		return fmt.Errorf("%s started operation %s: %w", action.Name(), id, errEnded)
	}
	if created.IsZero() {
		created = o.now()
	}
	o.item[key] = on
	started := operation.Operation{
		Action: action.Name(), ID: id, Item: on, PostOperationItems: post, Created: created, Status: operation.Status{
			Phase: operation.New,
		},
	}
	o.all = append(o.all, started)
	o.followed.Add(started)
	return nil
}

// Complete returns the current state of the operations, sorted. No action may be called after it.
func (o *Operations) Complete() []operation.Operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.followed.Complete(slices.SortedFunc(slices.Values(o.all), operation.Operation.Compare))
}

// startOf returns the record of a call.
func startOf(action Starter, on framework.ResourceIdentifier, sent []byte) (operation.Start, error) {
	meta, err := item.ParseMeta(sent)
	if err == nil && meta.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	if err != nil {
		return operation.Start{}, fmt.Errorf("item for %s: %w", action.Name(), err)
	}
	type metadata struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
	}
	identity, err := json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
	}{meta.APIVersion, meta.Kind, metadata{meta.Namespace, meta.Name}})
	return operation.Start{Action: action.Name(), Item: on, Sent: identity}, err
}
