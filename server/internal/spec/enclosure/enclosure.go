package enclosure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
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
	// Raw is the changed JSON; nil if nothing is changed.
	Raw []byte
	// Changes says what was changed, a phrase for each.
	Changes []string
}

// Rules are the rules of one enclosure.
type Rules struct {
	// Namespaces are those of the enclosure.
	Namespaces []string
	// CustomResources are resources such as "widgets.example.com", or groups such as "*.example.com", whose objects are
	// written although their controllers work outside of the enclosure.
	CustomResources []string
}

// written returns the resources that are written. Their controllers are those of Kubernetes, and what these do stays
// in the namespace.
func written(resource schema.GroupResource) bool {
	switch resource.Group {
	case "":
		return slices.Contains([]string{
			"configmaps", "endpoints", "limitranges", "persistentvolumeclaims", "pods", "podtemplates",
			"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
		}, resource.Resource)
	case "apps":
		return slices.Contains([]string{
			"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets",
		}, resource.Resource)
	case "batch":
		return resource.Resource == "cronjobs" || resource.Resource == "jobs"
	case "autoscaling":
		return resource.Resource == "horizontalpodautoscalers"
	case "policy":
		return resource.Resource == "poddisruptionbudgets"
	case "rbac.authorization.k8s.io":
		return resource.Resource == "roles" || resource.Resource == "rolebindings"
	case "discovery.k8s.io":
		return resource.Resource == "endpointslices"
	case "coordination.k8s.io":
		return resource.Resource == "leases"
	}
	return resource == snapshots
}

var (
	volumes   = schema.GroupResource{Resource: "persistentvolumes"}
	snapshots = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}
	contents  = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}
)

// Decide decides what becomes of an item. An error means that the item cannot be understood; it must not be written.
func (r Rules) Decide(i Item) (Decision, error) {
	if i.Namespace == "" {
		return r.clusterScoped(i)
	}
	if !slices.Contains(r.Namespaces, i.Namespace) {
		return Decision{Treatment: LeaveOut, Reason: "namespace " + i.Namespace + " is not one of the rehearsal"}, nil
	}
	switch reason, open := opening(i.Resource); {
	case open:
		return Decision{Treatment: Try, Reason: reason}, nil
	case !written(i.Resource) && !r.allows(i.Resource):
		return Decision{Treatment: Try, Reason: "its controller works outside of the namespaces of the rehearsal, and " +
			"restores.rehearsals.customResources does not have " + i.Resource.String()}, nil
	}
	change := changeOf(i.Resource)
	if change == nil {
		return Decision{}, nil
	}
	object, err := decode(i.Raw)
	if err != nil {
		return Decision{}, fmt.Errorf("decide whether %s can be rehearsed: %w", i.Resource, err)
	}
	c := &changing{rules: r, object: object}
	change(c)
	if c.leaveOut != "" {
		return Decision{Treatment: LeaveOut, Reason: c.leaveOut}, nil
	}
	if len(c.changes) == 0 {
		return Decision{}, nil
	}
	changed, err := json.Marshal(object)
	if err != nil {
		return Decision{}, fmt.Errorf("encode the changed %s: %w", i.Resource, err)
	}
	return Decision{Raw: changed, Changes: c.changes}, nil
}

// clusterScoped decides about a cluster-scoped item. Only what is the data of a claim is written: a volume that is made
// of a snapshot, and the content of a restored snapshot, which keeps that when it is deleted.
func (r Rules) clusterScoped(i Item) (Decision, error) {
	switch i.Resource {
	case volumes:
		if i.HasSnapshot {
			return Decision{}, nil
		}
		return Decision{Treatment: LeaveOut, Reason: "it is the disk of the workload that is backed up; its claim gets " +
			"a new volume"}, nil
	case contents:
		if !i.Last {
			return Decision{}, nil
		}
		var content struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct{ DeletionPolicy string }
		}
		if err := json.Unmarshal(i.Raw, &content); err != nil {
			return Decision{}, fmt.Errorf("decide whether %s can be rehearsed: %w", i.Resource, err)
		}
		if content.Metadata.Labels[velerov1.RestoreUIDLabel] != "" && content.Spec.DeletionPolicy == "Retain" {
			return Decision{}, nil
		}
	}
	return Decision{Treatment: Try, Reason: "it is cluster-scoped"}, nil
}

// opening reports whether objects of a resource let traffic in or out, and why they are not written.
func opening(resource schema.GroupResource) (reason string, open bool) {
	switch resource.Group {
	case "networking.k8s.io", "extensions":
		switch resource.Resource {
		case "ingresses":
			return "it would let traffic in", true
		case "networkpolicies":
			return "it could open the namespaces of the rehearsal", true
		}
	case "gateway.networking.k8s.io", "route.openshift.io":
		return "it would let traffic in", true
	}
	return "", false
}

// allows reports whether the objects of a custom resource are written.
func (r Rules) allows(resource schema.GroupResource) bool {
	return slices.Contains(r.CustomResources, resource.String()) ||
		resource.Group != "" && slices.Contains(r.CustomResources, "*."+resource.Group)
}

// object is a JSON object.
type object = map[string]any

// changing is an item while it is changed.
type changing struct {
	rules    Rules
	object   object
	changes  []string
	leaveOut string // why the item is left out
}

func (c *changing) changed(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.changes, text) {
		c.changes = append(c.changes, text)
	}
}

// drop removes fields. It reports whether there was one with a value.
func drop(from object, fields ...string) (dropped bool) {
	for _, field := range fields {
		value, ok := from[field]
		if !ok {
			continue
		}
		delete(from, field)
		dropped = dropped || !isZero(value)
	}
	return dropped
}

func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	case []any:
		return len(v) == 0
	case object:
		return len(v) == 0
	}
	return false
}

// below returns the object in which a path of fields ends, or nil.
func below(o object, path ...string) object {
	for _, field := range path {
		o, _ = o[field].(object)
	}
	return o
}

// each calls use for the objects of a list.
func each(list any, use func(object)) {
	elements, _ := list.([]any)
	for _, element := range elements {
		if o, ok := element.(object); ok {
			use(o)
		}
	}
}

// decode decodes a JSON object, with its numbers as they are.
func decode(raw []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the object")
	}
	if o == nil {
		return nil, fmt.Errorf("it is null, want an object")
	}
	return o, nil
}
