package manifest

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
)

// resourceOf returns the resource of an item, alone in a snapshot.
func resourceOf(item *manifest.Item) (discovery.Resource, *discovery.Snapshot) {
	gr := groupResource(item)
	snapshot := itemname.Alone(gr, item.APIVersion, item.ItemKind, item.Namespace != "")
	resource, _ := snapshot.ByGroupResource(gr)
	return resource, snapshot
}

func groupResource(item *manifest.Item) schema.GroupResource {
	return schema.GroupResource{Group: item.APIGroup, Resource: item.Resource}
}
