package restore

import (
	"bytes"
	"encoding/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// ownership is who owned which fields of an object when it was backed up (metadata.managedFields), and how
// to bring that about again.
//
// What an API server makes of a creation was tried out (1.36):
//   - managedFields in the body of a POST are read, but the creator then takes every field that the
//     object has. Entries of others survive for fields that the object does not have. So the body
//     cannot carry ownership, and it is left out.
//   - The query parameter fieldManager names the creator; the entry is of operation Update, without
//     subresource, and owns all fields of the body. So an object with one such owner comes back right
//     with the creation alone.
//   - Operation Apply comes from a PATCH of server-side apply only. One with a resourceVersion that no
//     object has ("1") creates the object if there is none and is refused with 409 Conflict if there
//     is one: a creation in one request that cannot change what exists.
//   - A merge patch of metadata.managedFields replaces the entries as they are, times included. Entries
//     of API versions that the server does not know vanish.
//
// So the creator is the original's owner where there is one; and what the server recorded is read back
// from its answer: where it says more than the original (fields that defaults or admission set, a
// second manager), a patch puts the original entries in place. Labels that the restore adds belong to
// the creator, or to nobody after a patch.
type ownership struct {
	raw    []byte // the original entries, nil if there were none
	writer string // manager to create as
	apply  bool   // create by server-side apply
	sole   *owner // who owned all, nil if several did
}

// owner is one entry of managedFields.
type owner struct {
	Manager     string          `json:"manager"`
	Operation   string          `json:"operation"`
	APIVersion  string          `json:"apiVersion"`
	FieldsV1    json.RawMessage `json:"fieldsV1"`
	Subresource string          `json:"subresource"`
}

// maxManagerName is what the API server accepts as a field manager, in bytes.
const maxManagerName = 128

// planOwnership reads metadata.managedFields as archived. fallback is the manager for objects that had
// none.
func planOwnership(managedFields []byte, fallback string) ownership {
	var owners []owner
	if len(managedFields) == 0 || json.Unmarshal(managedFields, &owners) != nil || len(owners) == 0 {
		return ownership{writer: fallback}
	}
	plan := ownership{raw: managedFields, writer: fallback}
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
			largest, plan.writer = len(o.FieldsV1), o.Manager
		}
	}
	if len(main) == 1 && !shared && plan.writer == main[0].Manager {
		plan.sole = &main[0]
		plan.apply = main[0].Operation == "Apply"
	}
	return plan
}

// statusWriter is the manager that owned the status, if there was one only.
func (p ownership) statusWriter() string {
	var owners []owner
	writer := p.writer
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
		return p.writer
	}
	return writer
}

// settled says whether the entries that the server recorded at the creation are those of the original.
func (p ownership) settled(recorded []byte) bool {
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
		return json.Unmarshal(o.FieldsV1, &now) == nil && within(withoutRestoreLabels(now), original)
	}
	return len(owners) == 0 // the server does not track this type
}

// patch is the merge patch that puts the original entries in place.
func (p ownership) patch() []byte {
	return append(append([]byte(`{"metadata":{"managedFields":`), p.raw...), "}}"...)
}

// onlyStatus says whether a set of fields has nothing but status.
func onlyStatus(fieldsV1 []byte) bool {
	var set map[string]json.RawMessage
	if json.Unmarshal(fieldsV1, &set) != nil {
		return false
	}
	delete(set, "f:status")
	return len(set) == 0
}

// withoutRestoreLabels takes the labels that a restore adds out of a set of fields.
func withoutRestoreLabels(set map[string]any) map[string]any {
	meta, _ := set["f:metadata"].(map[string]any)
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

// within says whether every field of set is in other too.
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
