package object

import (
	"bytes"
	"encoding/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Ownership is the plan by which an object is created with the field ownership (metadata.managedFields) that it had
// when it was backed up.
//
// An API server (1.36) treats a creation as follows:
//   - managedFields in the body of a POST are read, but the creator then takes every field that the
//     object has. Entries of other managers survive for fields that the object does not have. So the body
//     cannot carry ownership, and it is left out.
//   - The query parameter fieldManager names the creator; the entry is of operation Update, without
//     subresource, and owns all fields of the body. So for an object with one such owner, the creation
//     alone restores the ownership.
//   - Operation Apply comes from a PATCH of server-side apply only. If the PATCH has a resourceVersion that no
//     object has ("1"), it creates the object if there is none and is refused with 409 Conflict if there
//     is one: a creation in one request that cannot change an existing object.
//   - A merge patch of metadata.managedFields replaces the entries exactly, times included. Entries
//     of API versions that the server does not support are dropped.
//
// So the object is created as its original owner if there was one. The server's reply contains the entries that it
// recorded. If they exceed the original (fields that defaults or admission set, a second manager), a patch restores
// the original entries. Labels that the restore adds belong to the creator, or have no owner after a patch.
type Ownership struct {
	Writer string // manager to create as
	Apply  bool   // create by server-side apply

	raw  []byte // the original entries; nil if there were none
	sole *owner // owner of all fields; nil if there were several
}

// owner is one entry of managedFields.
type owner struct {
	Manager     string          `json:"manager"`
	Operation   string          `json:"operation"`
	APIVersion  string          `json:"apiVersion"`
	FieldsV1    json.RawMessage `json:"fieldsV1"`
	Subresource string          `json:"subresource"`
}

// maxManagerName is the length in bytes of the longest name of a field manager that the API server accepts.
const maxManagerName = 128

// PlanOwnership reads metadata.managedFields of an archived object. fallback is the manager for objects without
// any.
func PlanOwnership(managedFields []byte, fallback string) Ownership {
	var owners []owner
	if len(managedFields) == 0 || json.Unmarshal(managedFields, &owners) != nil || len(owners) == 0 {
		return Ownership{Writer: fallback}
	}
	plan := Ownership{raw: managedFields, Writer: fallback}
	var main []owner
	shared := false
	for _, o := range owners {
		switch {
		case o.Subresource == "":
			main = append(main, o)
		case !onlyStatus(o.FieldsV1):
			shared = true // e.g. annotations that controllers write together with the status
		}
	}
	largest := -1
	for _, o := range main {
		if len(o.FieldsV1) > largest && o.Manager != "" && len(o.Manager) <= maxManagerName {
			largest, plan.Writer = len(o.FieldsV1), o.Manager
		}
	}
	if len(main) == 1 && !shared && plan.Writer == main[0].Manager {
		plan.sole = &main[0]
		plan.Apply = main[0].Operation == "Apply"
	}
	return plan
}

// StatusWriter returns the manager that owned the status, or Writer if there was not exactly one.
func (p Ownership) StatusWriter() string {
	var owners []owner
	writer := p.Writer
	if json.Unmarshal(p.raw, &owners) != nil {
		return writer
	}
	found := 0
	for _, o := range owners {
		if o.Subresource == "status" && o.Manager != "" && len(o.Manager) <= maxManagerName {
			found++
			writer = o.Manager
		}
	}
	if found > 1 {
		return p.Writer
	}
	return writer
}

// Matches reports whether the entries that the server recorded at the creation equal the original ones, so that no
// patch is needed.
func (p Ownership) Matches(recorded []byte) bool {
	if p.raw == nil {
		return true
	}
	if p.sole == nil {
		return false
	}
	var owners []owner
	if json.Unmarshal(recorded, &owners) != nil {
		return false
	}
	var original map[string]any
	if json.Unmarshal(p.sole.FieldsV1, &original) != nil {
		return false
	}
	for _, o := range owners {
		if o.Manager != p.sole.Manager || o.Operation != p.sole.Operation || o.Subresource != "" {
			continue
		}
		if bytes.Equal(o.FieldsV1, p.sole.FieldsV1) {
			return true
		}
		var now map[string]any
		return json.Unmarshal(o.FieldsV1, &now) == nil && within(withoutRestored(now), original)
	}
	return len(owners) == 0 // the server does not track this type
}

// Patch returns the merge patch that restores the original entries.
func (p Ownership) Patch() []byte {
	return append(append([]byte(`{"metadata":{"managedFields":`), p.raw...), "}}"...)
}

// onlyStatus reports whether a set of fields contains only the status.
func onlyStatus(fieldsV1 []byte) bool {
	var set map[string]json.RawMessage
	if json.Unmarshal(fieldsV1, &set) != nil {
		return false
	}
	delete(set, "f:status")
	return len(set) == 0
}

// withoutRestored removes the labels that a restore adds from a set of fields, and the owners, whose UIDs are new.
func withoutRestored(set map[string]any) map[string]any {
	meta, _ := set["f:metadata"].(map[string]any)
	delete(meta, "f:ownerReferences")
	if meta != nil && len(meta) == 0 {
		delete(set, "f:metadata")
	}
	labels, _ := meta["f:labels"].(map[string]any)
	if labels == nil {
		return set
	}
	delete(labels, "f:"+velerov1.BackupNameLabel)
	delete(labels, "f:"+velerov1.RestoreNameLabel)
	if _, dot := labels["."]; dot && len(labels) == 1 || len(labels) == 0 {
		delete(meta, "f:labels")
	}
	if len(meta) == 0 {
		delete(set, "f:metadata")
	}
	return set
}

// within reports whether other contains every field of set.
func within(set, other map[string]any) bool {
	for key, below := range set {
		counterpart, ok := other[key]
		if !ok {
			return false
		}
		child, _ := below.(map[string]any)
		counterchild, _ := counterpart.(map[string]any)
		if !within(child, counterchild) {
			return false
		}
	}
	return true
}
