package manifest

// Item is one object of a backup: its identity, the properties by which it can be selected, and its dependencies. The
// rest of the object is in the archive.
type Item struct {
	APIGroup   string `json:"group,omitempty"` // empty for core
	APIVersion string `json:"version"`         // of the group: "v1"
	Resource   string `json:"resource"`        // plural: "deployments"
	ItemKind   string `json:"kind"`            // "Deployment"
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`

	// Labels and Annotations are those in the backup, which its actions may have changed. A manifest may leave out
	// annotations; its header names them.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`

	// OwnerUIDs are the UIDs of the objects that own this one, from its metadata.
	OwnerUIDs []string `json:"owners,omitempty"`
	// Edges are the dependencies of the item: its owners, its references, and the items that actions have requested for
	// it.
	Edges []Edge `json:"edges,omitempty"`
	// Included is how the item came to be in the backup.
	Included Inclusion `json:"included,omitzero"`

	// Manifest is the one that the item was added to; nil before.
	Manifest *Manifest `json:"-"`
}

// EdgeType is the kind of a dependency.
type EdgeType string

const (
	// Owner is an owner in the metadata of the item that is not its controller.
	Owner EdgeType = "owner"
	// Controller is the owner that manages the item.
	Controller EdgeType = "controller"
	// Reference is an object that a field of the item names.
	Reference EdgeType = "reference"
	// Action is an object that an action has requested to be backed up along with the item.
	Action EdgeType = "action"
	// More stands for references of the item that are left out because it has too many. It leads nowhere.
	More EdgeType = "more"
)

// Edge is a dependency of an item on another one, which need not be in the backup.
type Edge struct {
	Type EdgeType `json:"type"`
	// Strict is set if the item cannot be created or cannot work before the other one exists.
	Strict bool `json:"strict,omitempty"`
	To     Ref  `json:"to"`
	// Path is the field in which the dependency was found: "spec.volumes[2].persistentVolumeClaim.claimName". It is empty
	// for Action.
	Path string `json:"path,omitempty"`
	// Plugin is the name of the action for Action, and empty otherwise.
	Plugin string `json:"plugin,omitempty"`
}

// Ref names an object as far as it is known: the resource, the kind, or both; the UID may be missing.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource,omitempty"` // plural
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Means by which an item comes into a backup.
const (
	ByFilters = "filters" // the spec of the backup selects it
	ByOrder   = "order"   // the spec names it in orderedResources
	ByAction  = "action"  // an action has requested it for another item
	ByBlock   = "block"   // an item block action has put it into the block of another item
	ByContent = "content" // it is the namespace or the definition of other items
)

// Inclusion is how an item came into a backup. It is zero if that is not known, as in a manifest that was made from an
// archive.
type Inclusion struct {
	By     string `json:"by"`               // one of the constants
	Plugin string `json:"plugin,omitempty"` // the action, for ByAction and ByBlock
	Of     *Ref   `json:"of,omitempty"`     // the item for which it was requested, for ByAction and ByBlock
}
