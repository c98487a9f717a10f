package serverreport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

const (
	// OperationsOfAnnotation is set by the author of a ServerStatusRequest to the keys of backups and restores, separated
	// by commas (see OwnerKey), or to "" for all. The answer then has an OperationsAnnotation, and no other report.
	OperationsOfAnnotation = "cleat.dev/operations-of"
	// OperationsAnnotation holds Operations as JSON in an answered ServerStatusRequest.
	OperationsAnnotation = "cleat.dev/operations"
)

const (
	maxOwners     = 200 // in an answer
	maxOperations = 500 // in an answer
	maxText       = 300 // bytes of a text of a plugin
	maxID         = 256 // bytes of an id
)

// Operations are the asynchronous operations that the server follows: the open ones, and ended ones as long as their
// backup or restore waits for others.
type Operations struct {
	Time time.Time `json:"time"` // by the clock of the server
	Summary
	Owners  []OperationsOf `json:"owners"`
	Omitted int            `json:"omittedOwners,omitempty"` // owners that did not fit into an answer
}

// OperationsOf are the operations of a backup or restore.
type OperationsOf struct {
	Kind string    `json:"kind"` // "Backup" or "Restore"
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
	Summary
	Operations []Operation `json:"operations,omitempty"`
	Omitted    int         `json:"omitted,omitempty"` // operations that did not fit into an answer
	Problem    string      `json:"problem,omitempty"` // why operations are missing
}

// Operation is an asynchronous operation. The numbers, times and texts are those of the plugin, without validation.
type Operation struct {
	Plugin      string    `json:"plugin"`
	ID          string    `json:"id"`
	Resource    string    `json:"resource"` // of the item, "persistentvolumeclaims" or "deployments.apps"
	Namespace   string    `json:"namespace,omitempty"`
	Name        string    `json:"name"`
	Phase       string    `json:"phase"` // "New", "InProgress", "Completed" or "Failed"
	Done        int64     `json:"done"`
	Total       int64     `json:"total"`
	Units       string    `json:"units,omitempty"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	Started     time.Time `json:"started,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
	Error       string    `json:"error,omitempty"`     // of a failed one
	LastLines   string    `json:"lastLines,omitempty"` // that its work has written, likewise
	Cancelled   string    `json:"cancelled,omitempty"` // why it is being cancelled
	Trouble     string    `json:"trouble,omitempty"`   // why the plugin cannot be asked for it
}

// Summary counts operations, and adds up how far they are.
type Summary struct {
	Open      int `json:"open"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	// Silent are open operations that have reported no numbers yet.
	Silent  int      `json:"silent,omitempty"`
	Amounts []Amount `json:"amounts,omitempty"` // by units
}

// Amount is how far all operations with the same units are.
type Amount struct {
	Units string `json:"units,omitempty"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"` // 0 if it is unknown for one of them
}

// Ended reports whether the operation has ended.
func (o *Operation) Ended() bool { return o.Phase == "Completed" || o.Phase == "Failed" }

// OwnerKey returns the name of a backup or restore in OperationsOfAnnotation, such as "backup/nightly".
func OwnerKey(kind, name string) string { return strings.ToLower(kind) + "/" + name }

// NewOperations returns the report on the operations of owners. It counts them, and puts the open ones first. The
// Summary of an owner counts those that are not in its list.
func NewOperations(now time.Time, owners []OperationsOf) *Operations {
	report := &Operations{Time: now, Owners: owners}
	for i := range owners {
		owner := &owners[i]
		report.Open, report.Completed, report.Failed = report.Open+owner.Open, report.Completed+
			owner.Completed, report.Failed+owner.Failed
		report.Silent += owner.Silent
		slices.SortStableFunc(owner.Operations, func(a, b Operation) int { return cmp.Compare(a.rank(), b.rank()) })
		for j := range owner.Operations {
			owner.add(&owner.Operations[j])
			report.add(&owner.Operations[j])
		}
	}
	return report
}

// Only returns the report with the operations of one backup or restore.
func (r *Operations) Only(kind string, uid types.UID) *Operations {
	kept := &Operations{Time: r.Time}
	for _, owner := range r.Owners {
		if owner.Kind == kind && owner.UID == uid {
			kept.Owners, kept.Summary = append(kept.Owners, owner), owner.Summary
		}
	}
	return kept
}

// Ended returns the number of operations that have ended, and Attempted that of all.
func (s *Summary) Ended() int { return s.Completed + s.Failed }

// Attempted returns the number of all operations.
func (s *Summary) Attempted() int { return s.Open + s.Ended() }

func (s *Summary) add(o *Operation) {
	switch o.Phase {
	case "Completed":
		s.Completed++
	case "Failed":
		s.Failed++
	default:
		s.Open++
	}
	if o.Done == 0 && o.Total == 0 {
		if !o.Ended() {
			s.Silent++
		}
		return
	}
	i := slices.IndexFunc(s.Amounts, func(a Amount) bool { return a.Units == o.Units })
	if i < 0 {
		s.Amounts = append(s.Amounts, Amount{o.Units, o.Done, max(0, o.Total)})
		return
	}
	a := &s.Amounts[i]
	a.Done = saturated(a.Done, o.Done)
	if a.Total > 0 && o.Total > 0 {
		a.Total = saturated(a.Total, o.Total)
	} else {
		a.Total = 0
	}
}

// saturated returns a + b, or the nearest number that there is.
func saturated(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	default:
		return a + b
	}
}

// Encode returns the report as JSON for the annotation, with long texts cut. If there are too many operations, each
// owner has the first of them; the rest is counted in Omitted.
func (r *Operations) Encode() (string, error) {
	short := *r
	short.Owners = slices.Clone(r.Owners[:min(maxOwners, len(r.Owners))])
	short.Omitted = r.Omitted + len(r.Owners) - len(short.Owners)
	left, room := maxOperations, maxAnnotation-maxOwners*maxText-4<<10
	queues := make([][]*Operation, len(short.Owners)) // what may be added
	for i := range short.Owners {
		owner := &short.Owners[i]
		for j := range owner.Operations {
			queues[i] = append(queues[i], &owner.Operations[j])
		}
		owner.Omitted += len(owner.Operations)
		owner.Operations, owner.Problem = nil, shorten.Text(owner.Problem, maxText)
		owner.Amounts = shortAmounts(owner.Amounts)
	}
	short.Amounts = shortAmounts(r.Amounts)
	for round := 0; left > 0 && room > 0; round++ {
		added := false
		for i := range queues {
			if round >= len(queues[i]) || left == 0 {
				continue
			}
			o := queues[i][round].shortened()
			one, err := json.Marshal(o)
			if err != nil {
				return "", fmt.Errorf("write the report of operations as JSON: %w", err)
			}
			if room -= len(one) + 1; room < 0 {
				break
			}
			owner := &short.Owners[i]
			owner.Operations = append(owner.Operations, o)
			owner.Omitted--
			left, added = left-1, true
		}
		if !added {
			break
		}
	}
	data, err := json.Marshal(&short)
	if err != nil {
		return "", fmt.Errorf("write the report of operations as JSON: %w", err)
	}
	return string(data), nil
}

func (o *Operation) rank() int {
	if o.Ended() {
		return 1
	}
	return 0
}

// maxAmounts is the number of units in a summary.
const maxAmounts = 3

func shortAmounts(all []Amount) []Amount { return all[:min(maxAmounts, len(all))] }

func (o *Operation) shortened() Operation {
	short := *o
	short.ID = shorten.Text(o.ID, maxID)
	for _, text := range []*string{&short.Description, &short.Error, &short.Cancelled, &short.Trouble} {
		*text = shorten.Text(*text, maxText)
	}
	return short
}

// DecodeOperations parses the annotation. It ignores unknown fields, because the server may be newer.
func DecodeOperations(text string) (*Operations, error) {
	r := &Operations{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer is not a report of operations: %w", OperationsAnnotation,
			err)
	}
	for i := range r.Owners {
		if owner := &r.Owners[i]; owner.Kind == "" || owner.Name == "" {
			return nil, fmt.Errorf("annotation %s of the server's answer: owners[%d] has no kind or no name",
				OperationsAnnotation, i)
		}
	}
	return r, nil
}
