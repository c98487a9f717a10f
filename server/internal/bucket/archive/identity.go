package archive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Check returns an error unless an object with this metadata has the group, the namespace and the name of its path in
// the archive. Only discovery can compare the kind with the resource, see discovery.Snapshot.CheckKind.
func (e Entry) Check(meta item.Meta) error {
	return Object{GroupResource: e.GroupResource, Namespace: e.Namespace, Name: e.Name}.Check(meta)
}

// Check is like Entry.Check, and also compares the version if the path has one.
func (o Object) Check(meta item.Meta) error {
	group, version, grouped := strings.Cut(meta.APIVersion, "/")
	if !grouped {
		group, version = "", meta.APIVersion
	}
	if group == o.GroupResource.Group && (o.Version == "" || o.Version == version) && meta.Namespace == o.Namespace &&
		meta.Name == o.Name {
		return nil
	}
	named := strings.Join(slices.DeleteFunc([]string{meta.APIVersion, meta.Kind, meta.Namespace, meta.Name},
		func(part string) bool { return part == "" }), " ")
	return fmt.Errorf("it holds the object %q, want the one that its path names", shorten.Text(named, 600))
}
