package backups

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// ends are the ends of runs that are not written yet. The Backups are InProgress still, and must not be taken up.
type ends struct {
	mu  sync.Mutex
	all map[client.ObjectKey]ended
}

type ended struct {
	backup *velerov1.Backup
	end    func(*velerov1.Backup)
}

// keep records that the run of b has ended.
func (e *ends) keep(b *velerov1.Backup, end func(*velerov1.Backup)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[client.ObjectKey]ended{}
	}
	e.all[client.ObjectKeyFromObject(b)] = ended{b.DeepCopy(), end}
}

// of returns the end of the run of b, nil if it has not ended in this process.
func (e *ends) of(b *velerov1.Backup) func(*velerov1.Backup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.all[client.ObjectKeyFromObject(b)]
	if !ok || known.backup.UID != b.UID || run.ClaimOf(known.backup) != run.ClaimOf(b) {
		return nil
	}
	return known.end
}

// written forgets the end of the run of b.
func (e *ends) written(b *velerov1.Backup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, client.ObjectKeyFromObject(b))
}

// replaced forgets an end and returns its Backup if another one has its name now, or none. Otherwise it returns nil.
func (e *ends) replaced(key client.ObjectKey, by types.UID) *velerov1.Backup {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.all[key]
	if !ok || known.backup.UID == by {
		return nil
	}
	delete(e.all, key)
	return known.backup
}
