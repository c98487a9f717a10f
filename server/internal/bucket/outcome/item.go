package outcome

import "strings"

// Verdict is the outcome for one item in one word.
type Verdict string

// The verdicts. A restore lists items of Conflict, Refused and Failed as failed.
const (
	Created  Verdict = "created"
	Updated  Verdict = "updated"
	Skipped  Verdict = "skipped"
	Conflict Verdict = "conflict" // it exists, differs from the backup and would be left as it is
	Refused  Verdict = "refused"  // by the API server: validation, admission, quota
	Failed   Verdict = "failed"

	// LeftOut are items of the backup that the filters of the restore do not select.
	LeftOut Verdict = "left out"
)

// The verdicts of items of a restore that is at work.
const (
	Waiting   Verdict = "waiting"   // for others; it has not begun
	Working   Verdict = "at work"   // it has begun
	Postponed Verdict = "postponed" // the API server has refused it and is asked again when all others are restored
)

// Verdicts returns the verdicts of ended items in the order in which they are shown.
func Verdicts() []Verdict { return []Verdict{Created, Updated, Skipped, Conflict, Refused, Failed} }

// Ref names an item: its resource as in "deployments.apps", its namespace in the backup, and its name.
type Ref struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns the name as commands accept it: "deployments.apps/shop/web".
func (r Ref) String() string {
	parts := []string{r.Resource}
	for _, part := range []string{r.Namespace, r.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// Item describes how a restore treats one item.
type Item struct {
	Resource   string `json:"resource"` // as in "deployments.apps"
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"` // that is restored into
	// From is the namespace in the backup, if that is another one.
	From string `json:"from,omitempty"`
	// Name is empty for all items of the resource and, if it is there, the namespace in the backup that are left out.
	Name    string  `json:"name,omitempty"`
	Items   int     `json:"items,omitempty"` // their number, without a name
	Outcome Verdict `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
	// Unchecked means that the API server could not check the item in a dry run, because the same restore would create
	// something that the item needs.
	Unchecked bool `json:"unchecked,omitempty"`
	// Incomplete means that the item is restored, but not as requested; see the reason.
	Incomplete bool `json:"incomplete,omitempty"`

	// Wave is the wave in which the item begins, from 1. It is 0 for an item that an action has requested.
	Wave int `json:"wave,omitempty"`
	// Needs are items that the item waits for.
	Needs     []Need `json:"needs,omitempty"`
	MoreNeeds int    `json:"moreNeeds,omitempty"` // the number of others
	// HeldUp is how many seconds after the beginning of the restore the last of its needs was there, and HeldUpBy that
	// need.
	HeldUp   float64 `json:"heldUpSeconds,omitempty"`
	HeldUpBy *Ref    `json:"heldUpBy,omitempty"`
	// Waits are what it waited for after its beginning.
	Waits []Wait `json:"waits,omitempty"`
	// Refusals is how many times the API server has refused to create it.
	Refusals int `json:"refusals,omitempty"`
}

// Source returns the name of the item in the backup.
func (i *Item) Source() Ref {
	ref := Ref{Resource: i.Resource, Namespace: i.Namespace, Name: i.Name}
	if i.From != "" {
		ref.Namespace = i.From
	}
	return ref
}

// Need is an item that another one waits for.
type Need struct {
	Ref
	// Strict is set if the other item cannot be created or cannot work without it.
	Strict bool `json:"strict,omitempty"`
	// Missing is set, while the restore is at work, if it is not there yet.
	Missing bool `json:"missing,omitempty"`
}

// Wait is something that took an item a while.
type Wait struct {
	For     string  `json:"for"`
	Because string  `json:"because,omitempty"`
	Seconds float64 `json:"seconds"`
	Open    bool    `json:"open,omitempty"` // it goes on
}
