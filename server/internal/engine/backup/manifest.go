package backup

import (
	"github.com/cleat-dev/cleat/framework/manifest"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// Manifest takes the items of a backup in the order in which the archive has them.
type Manifest interface {
	// Add takes an item that is in the archive, and its JSON there. It is not called concurrently. It must not change the
	// item, nor keep object.
	Add(item *manifestwriter.Item, object []byte)
}

// write writes an object to the archive, and adds it to the manifest with what actions have requested for it.
func (e *engine) write(o object, meta item.Meta, raw []byte, requested []manifest.Edge) error {
	gr, version := o.resource.GroupResource(), o.resource.GroupVersion.Version
	if e.req.Manifest == nil {
		return e.archive.Item(gr, version, !o.resource.NotPreferred, meta.Namespace, meta.Name, raw)
	}
	described := e.describe(o, meta, raw, requested)
	e.writes.Lock() // so that the manifest has the order of the archive
	defer e.writes.Unlock()
	err := e.archive.Item(gr, version, !o.resource.NotPreferred, meta.Namespace, meta.Name, raw)
	if err == nil {
		e.req.Manifest.Add(described, raw)
	}
	return err
}

// describe returns an object as the manifest has it.
func (e *engine) describe(o object, meta item.Meta, raw []byte, requested []manifest.Edge) *manifestwriter.Item {
	described, err := servermanifest.Item(o.resource.GroupVersionResource(), raw, meta, e.deps.References)
	if err != nil {
		e.record.warned(o.resource.GroupResource(), meta.Namespace, meta.Name, "the manifest lacks what the object refers to",
			err)
		e.log.Warn("the manifest lacks what an object refers to", "resource", o.resource.GroupResource(), "namespace",
			meta.Namespace, "name", meta.Name, "error", err)
	}
	described.Included = o.included
	servermanifest.Request(described, requested)
	return described
}

// refTo returns a reference to an object.
func refTo(o object, meta item.Meta) *manifest.Ref {
	return &manifest.Ref{
		Group: o.resource.GroupVersion.Group, Resource: o.resource.Name, Kind: o.resource.Kind,
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
	}
}
