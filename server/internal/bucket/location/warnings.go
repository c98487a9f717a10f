package location

import (
	"sync"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// warnings logs each warning about a location once per provider.
type warnings struct {
	log hclog.Logger

	mu    sync.Mutex
	given map[string]map[warning]bool // by the key of the location
}

type warning struct{ provider, message string }

func (w *warnings) add(location *velerov1.BackupStorageLocation, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, one := key(location.Namespace, location.Name), warning{location.Spec.Provider, message}
	if w.given[at][one] {
		return
	}
	if w.given == nil {
		w.given = map[string]map[warning]bool{}
	}
	if w.given[at] == nil {
		w.given[at] = map[warning]bool{}
	}
	w.given[at][one] = true
	w.log.Warn("the object store of a backup storage location behaves unlike others; the location works",
		"location", location.Name, "provider", location.Spec.Provider, "warning", message)
}

// forget lets the warnings about a location be logged again.
func (w *warnings) forget(location string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.given, location)
}
