package contents

import (
	"cmp"
	"strings"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// NameOf returns the name of an item for people and for the commands: "deployments.apps/shop/web". Of the target of a
// reference, it has what is known.
func NameOf(ref manifest.Ref) string {
	var parts []string
	for _, part := range []string{ResourceOf(ref), ref.Namespace, ref.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if ref.Name == "" && ref.UID != "" {
		parts = append(parts, "uid:"+ref.UID)
	}
	return layout.OneLine(strings.Join(parts, "/"))
}

// ResourceOf returns the resource, or else the kind, with the group: "deployments.apps".
func ResourceOf(ref manifest.Ref) string {
	name := cmp.Or(ref.Resource, ref.Kind)
	if name != "" && ref.Group != "" {
		name += "." + ref.Group
	}
	return name
}
