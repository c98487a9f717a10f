package location

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// written remembers what was stored in each location, by all stores that were opened. It is safe for concurrent use.
type written struct {
	mu         sync.Mutex
	byLocation map[string]*store.Written
}

func (w *written) of(location client.Object) *store.Written {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := key(location.GetNamespace(), location.GetName())
	if w.byLocation == nil {
		w.byLocation = map[string]*store.Written{}
	}
	if w.byLocation[at] == nil {
		w.byLocation[at] = &store.Written{}
	}
	return w.byLocation[at]
}

func (w *written) forget(location string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byLocation, location)
}
