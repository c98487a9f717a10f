package object

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/orders"
)

// RemoveOrders removes what servers and agents act upon (see package orders), whoever has added it: the archive, an
// action or a modifier. The label with the UID of the restore itself stays, which actions set on what they make for it.
func (o *Object) RemoveOrders(restore string) {
	own := o.Labels[velerov1.RestoreUIDLabel] == restore
	o.drop("labels", o.Labels, func(key string) bool {
		return orders.Is(key) && (!own || key != velerov1.RestoreUIDLabel)
	})
	o.drop("annotations", o.Annotations, orders.Is)
	o.dropElements("finalizers", func(element json.RawMessage) bool {
		var name string
		return json.Unmarshal(element, &name) == nil && orders.IsFinalizer(name)
	})
	o.dropElements("ownerReferences", func(element json.RawMessage) bool {
		fields, err := Split(element)
		var version string
		return err == nil && json.Unmarshal(fields.Get("apiVersion"), &version) == nil &&
			orders.IsGroup(schema.FromAPIVersionAndKind(version, "").Group)
	})
}

// dropElements removes elements of a list of metadata. What is no list is left to the API server, which refuses it.
func (o *Object) dropElements(field string, unwanted func(element json.RawMessage) bool) {
	raw := o.Metadata.Get(field)
	var all []json.RawMessage
	if raw == nil || json.Unmarshal(raw, &all) != nil || !slices.ContainsFunc(all, unwanted) {
		return
	}
	if all = slices.DeleteFunc(all, unwanted); len(all) == 0 {
		o.Metadata.Remove(field)
		return
	}
	if left, err := json.Marshal(all); err == nil { // always, as it was read
		o.Metadata.Set(field, left)
	}
}
