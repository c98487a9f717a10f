package manifest

import "strings"

// AddOwner adds an owner that the metadata of the item has. The edge to its controller is strict.
func (i *Item) AddOwner(apiVersion, kind, name, uid string, controller bool) {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		group = ""
	}
	edge := Edge{
		Type: Owner, Path: "metadata.ownerReferences",
		To: Ref{Group: group, Kind: kind, Namespace: i.Namespace, Name: name, UID: uid},
	}
	if controller {
		edge.Type, edge.Strict = Controller, true
	}
	i.Edges = append(i.Edges, edge)
	if uid != "" {
		i.OwnerUIDs = append(i.OwnerUIDs, uid)
	}
}
