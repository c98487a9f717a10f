package operation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning"
)

// record is one line of a journal in JSON: an action is about to be called, the call has ended, or both.
type record struct {
	Call  int    `json:"call"` // its number in the attempt
	Begin *begin `json:"begin,omitempty"`
	End   *end   `json:"end,omitempty"`
}

type begin struct {
	Action string                       `json:"action"`
	Item   framework.ResourceIdentifier `json:"item"`
	Sent   json.RawMessage              `json:"sent,omitempty"`
	Keyed  bool                         `json:"keyed,omitempty"`
	At     time.Time                    `json:"at,omitzero"`
}

// end without an ID means that there was nothing to start.
type end struct {
	ID      string `json:"id,omitempty"`
	Refused bool   `json:"refused,omitempty"` // by an error, which leaves former calls with the same key in doubt
}

func begun(s Start, keyed bool, at time.Time) *begin {
	return &begin{Action: s.Action, Item: s.Item, Sent: s.Sent, Keyed: keyed, At: at.UTC().Truncate(time.Second)}
}

func (b *begin) start() Start { return Start{Action: b.Action, Item: b.Item, Sent: b.Sent} }

// check returns an error if the start cannot be recorded.
func (s Start) check() error {
	switch {
	case s.Action == "":
		return errors.New("the start of an operation names no action")
	case s.Item.Resource == "" || s.Item.Name == "":
		return fmt.Errorf("the start of an operation has no resource or no name of an item: %q", s.Item)
	case len(s.Sent) > 0 && !json.Valid(s.Sent):
		return fmt.Errorf("the identity of %s that %s gets is not JSON", s.Item, s.Action)
	}
	return nil
}

// line is an encoded record.
type line struct {
	json []byte // with a newline
	ends bool   // it ends a call
}

func (r record) encode() line {
	encoded, err := json.Marshal(r)
	if err != nil {
		panic(err) // check has been called
	}
	return line{append(encoded, '\n'), r.End != nil}
}

// group holds the records of one write.
type group struct {
	number  int // of the write; a later attempt continues the numbers of former ones
	attempt string
	lines   []byte
}

// replay adds the records of former attempts. It returns the damage; all other records are used.
func (j *Journal) replay(groups []group) error {
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.attempt, b.attempt))
	})
	var damaged []error
	calls := map[call]*entry{}
	for _, g := range groups {
		for i, encoded := range bytes.Split(bytes.TrimSuffix(g.lines, []byte("\n")), []byte("\n")) {
			if err := j.replayLine(calls, g.attempt, encoded); err != nil {
				damaged = append(damaged, fmt.Errorf("record %d of write %d of attempt %s: %w", i+1, g.number, g.attempt, err))
			}
		}
	}
	return joined(damaged)
}

func (j *Journal) replayLine(calls map[call]*entry, attempt string, encoded []byte) error {
	var r record
	if err := json.Unmarshal(encoded, &r); err != nil {
		return err
	}
	c := call{attempt, r.Call}
	if b := r.Begin; b != nil {
		if err := b.start().check(); err != nil {
			return err
		}
		calls[c] = j.entry(b.start(), b.Keyed)
		calls[c].begins(c, b.At)
	}
	e, known := calls[c]
	switch {
	case !known:
		return fmt.Errorf("call %d has no begin", r.Call)
	case r.End == nil:
	case r.End.Refused:
		delete(e.open, c)
	default:
		e.answered(r.End.ID)
	}
	return nil
}

// LeavesDoubt reports whether an operation may have been started by a call that returned err. A plugin that replies
// with an error of its own has started none. If the reply did not arrive or is invalid, or the plugin panicked, this
// is unknown. Any other error prevented the call, or concerns its reply.
func LeavesDoubt(err error) bool {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err,
		versioning.ErrInvalidReply):
		return true
	case !errors.As(err, new(*versioning.Error)):
		return false
	}
	reply, replied := status.FromError(err)
	if !replied {
		return true
	}
	switch reply.Code() {
	case codes.Unknown, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return false
	}
	return true
}
