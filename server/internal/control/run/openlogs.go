package run

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

// Logs are the open logs of backups and restores, by UID. While a run is InProgress, the entry is its log. After the
// log was stored, and until the final phase, lines are added to the stored log. Logs is safe for concurrent use; nil
// has no logs.
type Logs struct {
	JSON   bool         // see LogOptions
	Server hclog.Logger // gets all lines too
	Now    func() time.Time

	mu   sync.Mutex
	wake func(*operation.Owner)
	open map[types.UID]*openLog
}

// openLog has one of its two fields set.
type openLog struct {
	run  hclog.Logger
	late *runlog.Late
}

func (o *openLog) logger() hclog.Logger {
	if o.late != nil {
		return o.late.Logger()
	}
	return o.run
}

// OnLate sets a function that is called when lines of an owner begin to wait for the next write. It must not block.
func (l *Logs) OnLate(wake func(owner *operation.Owner)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake = wake
}

// Of returns the open log of the backup or restore with a UID, or nil if there is none.
func (l *Logs) Of(uid string) hclog.Logger {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.open[types.UID(uid)]; found != nil {
		return found.logger()
	}
	return nil
}

// Begin opens the log of a run.
func (l *Logs) Begin(uid types.UID, log hclog.Logger) {
	if l != nil {
		l.set(uid, &openLog{run: log})
	}
}

func (l *Logs) set(uid types.UID, log *openLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[types.UID]*openLog{}
	}
	l.open[uid] = log
}

// Late returns the collector of the lines of a backup or restore that come after its log was stored. From the first
// call on, the log of the run gets no more lines.
func (l *Logs) Late(kind string, object client.Object) *runlog.Late {
	l.mu.Lock()
	found := l.open[object.GetUID()]
	l.mu.Unlock()
	if found != nil && found.late != nil {
		return found.late
	}
	owner := &operation.Owner{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	late := runlog.NewLate(runlog.Options{Tee: l.Server.ResetNamed(""), JSON: l.JSON, Now: l.Now}, func() {
		l.mu.Lock()
		wake := l.wake
		l.mu.Unlock()
		if wake != nil {
			wake(owner)
		}
	}, strings.ToLower(kind), client.ObjectKeyFromObject(object).String())
	l.set(owner.UID, &openLog{late: late})
	return late
}

// End closes the log of a backup or restore. Later lines go to the server's log only.
func (l *Logs) End(uid types.UID) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, uid)
	}
}

// StoreLate adds the waiting lines to the stored log of a backup or restore, by the given method of a Store. Lines
// that the object store logs meanwhile do not belong to the run: otherwise the log would never end.
func StoreLate(
	ctx context.Context, late *runlog.Late, name, dir string, add func(ctx context.Context, name, dir string,
		lines io.ReadSeeker) error,
) error {
	ctx = pluginhost.ForRun(ctx, "")
	return late.Store(func(lines io.ReadSeeker) error { return add(ctx, name, dir, lines) })
}

// StoreLast calls store with all waiting lines of a run, for what is stored with them. They wait on if store fails.
// As with StoreLate, what the object store logs meanwhile is not of the run.
func StoreLast(
	ctx context.Context, late *runlog.Late, store func(ctx context.Context, lines io.ReadSeeker) error,
) error {
	ctx = pluginhost.ForRun(ctx, "")
	return late.StoreAll(func(lines io.ReadSeeker) error { return store(ctx, lines) })
}
