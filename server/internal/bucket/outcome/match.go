package outcome

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
)

// Matches reports whether a user has named the item, by its namespace in the cluster or in the backup.
func (i *Item) Matches(name itemname.Name) bool { return i.Name == name.Name && i.mayBe(name) }

// Covers reports whether the item stands for all that are left out, and a user may have named one of these.
func (i *Item) Covers(name itemname.Name) bool {
	return i.Name == "" && (i.Namespace == "" || i.mayBe(name)) && i.is(name)
}

func (i *Item) mayBe(name itemname.Name) bool {
	return (name.In(i.Namespace) || i.From != "" && name.In(i.From)) && i.is(name)
}

func (i *Item) is(name itemname.Name) bool {
	gv, _ := schema.ParseGroupVersion(i.APIVersion)
	return name.Is(schema.ParseGroupResource(i.Resource), gv.Version, i.Kind, i.Namespace != "")
}
