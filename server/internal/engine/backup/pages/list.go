package pages

import (
	"fmt"
	"sync/atomic"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// List is one list to read from the API server: the objects of a resource, in one namespace or in all,
// that match a label selector.
type List struct {
	Resource  discovery.Resource
	Namespace string // empty for all namespaces
	Selector  string // empty for all objects
	First     bool   // first of the lists of its resource
}

// String describes the list in messages, as in "list pods in namespace shop".
func (l *List) String() string {
	if l.Namespace == "" {
		return "list " + l.Resource.GroupResource().String()
	}
	return fmt.Sprintf("list %s in namespace %s", l.Resource.GroupResource(), l.Namespace)
}

// Page is a part of a list. Its objects stay valid until Release has been called as often as Hold; the reader itself
// holds a page during its consumption.
type Page struct {
	List    *List
	Objects [][]byte // apiVersion and kind may be missing

	holders atomic.Int32
	free    func()
}

// Hold keeps the objects valid beyond the consumption of the page.
func (p *Page) Hold() { p.holders.Add(1) }

// Release undoes one Hold.
func (p *Page) Release() {
	if p.holders.Add(-1) == 0 {
		p.free()
	}
}
