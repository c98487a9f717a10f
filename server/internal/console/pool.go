package console

import (
	"runtime"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// row is an object that feeds hold. Nobody changes it.
type row struct{ object client.Object }

// version identifies a version of an object.
type version struct {
	uid     types.UID
	version string
}

// pool shares the rows of all viewers: 100 viewers of 10,000 backups hold each backup once. A row that no feed holds
// any more is collected.
type pool struct {
	mu   sync.Mutex
	rows map[version]weak.Pointer[row]
}

// intern returns the row of an object, which slim makes smaller. It keeps a copy, because an object of a list keeps
// the memory of the whole list.
func (p *pool) intern(object client.Object, slim func(client.Object)) *row {
	key := version{object.GetUID(), object.GetResourceVersion()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.rows[key].Value(); known != nil {
		return known
	}
	object.SetManagedFields(nil)
	if slim != nil {
		slim(object)
	}
	copied, _ := object.DeepCopyObject().(client.Object) // the copy has the type of the object
	kept := &row{copied}
	if p.rows == nil {
		p.rows = map[version]weak.Pointer[row]{}
	}
	p.rows[key] = weak.Make(kept)
	runtime.AddCleanup(kept, p.forget, key)
	return kept
}

// forget removes a row that was collected.
func (p *pool) forget(key version) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rows[key].Value() == nil {
		delete(p.rows, key)
	}
}
