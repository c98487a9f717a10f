package backup

import (
	"github.com/cleat-dev/cleat/framework/manifest"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// Manifest receives the items of a backup in the order of the archive.
type Manifest interface {
	// Add receives an item that is in the archive, and its JSON there. It is not called concurrently. It must not
	// change the item or retain object.
	Add(item *manifestwriter.Item, object []byte)
}

// write writes the object to the archive, and adds it to the manifest with the items that actions have requested for
// it. An error ends the whole backup.
func (r *itemRun) write() error {
	e, resource := r.engine, &r.object.resource
	gr, version := resource.GroupResource(), resource.GroupVersion.Version
	var described *manifestwriter.Item
	if e.req.Manifest != nil {
		described = r.describe()
		e.writes.Lock() // so that the manifest has the order of the archive
		defer e.writes.Unlock()
	}
	err := e.archive.Item(gr, version, !resource.NotPreferred, r.meta.Namespace, r.meta.Name, r.raw)
	if err != nil {
		return fatal{err}
	}
	if described != nil {
		e.req.Manifest.Add(described, r.raw)
	}
	r.written = true
	return nil
}

// describe returns the entry of the object in the manifest.
func (r *itemRun) describe() *manifestwriter.Item {
	e := r.engine
	described, err := servermanifest.Item(r.object.resource.GroupVersionResource(), r.raw, r.meta, e.deps.References)
	if err != nil {
		gr := r.object.resource.GroupResource()
		e.record.warned(gr, r.meta.Namespace, r.meta.Name, "the manifest lacks what the object refers to", err)
		e.log.Warn("the manifest lacks what an object refers to", "resource", gr, "namespace", r.meta.Namespace,
			"name", r.meta.Name, "error", err)
	}
	described.Included = r.object.included
	servermanifest.Request(described, r.requested)
	return described
}

// refTo returns a reference to an object.
func refTo(o object, meta item.Meta) *manifest.Ref {
	return &manifest.Ref{
		Group: o.resource.GroupVersion.Group, Resource: o.resource.Name, Kind: o.resource.Kind,
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
	}
}
