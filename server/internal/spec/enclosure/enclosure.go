package enclosure

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// Treatment is what is done with an item.
type Treatment int

// The treatments.
const (
	// Write writes the item.
	Write Treatment = iota
	// Try sends the item to the API server as a dry run: it is admitted and validated, and not stored.
	Try
	// LeaveOut does nothing with the item.
	LeaveOut
)

// Item is an item of the restore.
type Item struct {
	Resource schema.GroupResource
	// Namespace is the one into which it is restored; empty for a cluster-scoped item.
	Namespace string
	// Raw is its JSON.
	Raw []byte
	// HasSnapshot is set for a persistent volume of which the backup has a snapshot, so that it is a new disk.
	HasSnapshot bool
	// Last is set if the actions of plugins have changed the item. The first decision is made before, so that no action
	// is called for an item that is not written.
	Last bool
}

// Decision is what becomes of an item.
type Decision struct {
	Treatment Treatment
	// Reason says why the item is not written.
	Reason string
	// Raw is what is written; nil unless Item.Last is set.
	Raw []byte
	// Changes says what was changed, a phrase for each.
	Changes []string
}

// Rules are the rules of one enclosure.
type Rules struct {
	// Restore is the UID of the Restore of the enclosure.
	Restore string
	// Namespaces are those of the enclosure.
	Namespaces []string
	// CustomResources are resources such as "widgets.example.com", or groups such as "*.example.com", whose objects are
	// written although their controllers work outside of the enclosure.
	CustomResources []string
}

// Decide decides what becomes of an item. An error means that the item cannot be understood; it must not be written.
func (r Rules) Decide(i Item) (Decision, error) {
	decoded, err := item.DecodeForeign(i.Raw)
	if err != nil {
		return Decision{}, fmt.Errorf("decide whether %s can be rehearsed: %w", i.Resource, err)
	}
	if i.Namespace != "" && !slices.Contains(r.Namespaces, i.Namespace) {
		return Decision{Treatment: LeaveOut, Reason: "namespace " + i.Namespace + " is not one of the rehearsal"}, nil
	}
	c := &changing{rules: r, item: i, object: decoded}
	kind := r.kindOf(i)
	switch {
	case kind.whole:
	case kind.fields == nil:
		return Decision{Treatment: Try, Reason: kind.reason}, nil
	default:
		c.keep(decoded, kind.fields, "")
	}
	if kind.change != nil && c.err == nil {
		kind.change(c)
	}
	c.metadata(kind)
	switch {
	case c.err != nil:
		return Decision{}, fmt.Errorf("decide whether %s can be rehearsed: %w", i.Resource, c.err)
	case c.reason != "":
		return Decision{Treatment: c.treatment, Reason: c.reason}, nil
	case !i.Last:
		return Decision{}, nil
	}
	raw, err := json.Marshal(decoded)
	if err != nil {
		return Decision{}, fmt.Errorf("encode %s as it is rehearsed: %w", i.Resource, err)
	}
	return Decision{Raw: raw, Changes: c.changes}, nil
}

// changing is an item while it is changed.
type changing struct {
	rules     Rules
	item      Item
	object    object
	changes   []string
	treatment Treatment
	reason    string // why the item is not written
	err       error
}

func (c *changing) changed(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.changes, text) {
		c.changes = append(c.changes, text)
	}
}

func (c *changing) leaveOut(format string, args ...any) {
	c.treatment, c.reason = LeaveOut, fmt.Sprintf(format, args...)
}

func (c *changing) try(reason string) { c.treatment, c.reason = Try, reason }

// isInside reports whether a value is the name of a namespace of the enclosure.
func (c *changing) isInside(namespace any) bool {
	name, _ := namespace.(string)
	return slices.Contains(c.rules.Namespaces, name)
}
