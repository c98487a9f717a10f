package backupqueue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// Locations has the settings of the queue for storage locations: a backup whose location is not available waits. If
// the location does not exist, the backup starts and fails its validation, as in Velero.
//
// A backup that waits for its location keeps its position and does not block others, not even those that it overlaps:
// how long the location stays unavailable is unknown.
type Locations struct {
	// Default is the location of backups that name none, if no location of the cluster is marked as the default.
	Default string
	// Ask requests a validation of a location that is not available, because a backup waits for it.
	Ask func(name string)
}

// askPause is the time between two requests to validate a location that is not available.
const askPause = 5 * time.Second

// reasonLocation is the reason of backups that wait for their location.
const reasonLocation = "LocationUnavailable"

// setAside removes the backups whose location is not available from the line, and requests a validation. It returns
// the time until the next request, or 0 for none.
func (q *Controller) setAside(ctx context.Context, line *queue.Line) (again time.Duration, err error) {
	if q.Locations == nil {
		return 0, nil
	}
	var list velerov1.BackupStorageLocationList
	if err := q.List(ctx, &list, client.InNamespace(q.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list the backup storage locations: %w", err)
	}
	problems, fallback := map[string]string{}, run.DefaultLocation(list.Items, q.Locations.Default)
	for i := range list.Items {
		location := &list.Items[i]
		if run.LocationProblem(location) != "" {
			// The message of the location may change with each validation, and every change would be written to each
			// backup.
			phase := cmp.Or(location.Status.Phase, "not validated yet")
			problems[location.Name] = fmt.Sprintf("backup storage location %s is %s, and the backup starts when it is Available",
				location.Name, phase)
		}
	}
	line.Aside = map[string]queue.Reason{}
	waitedFor := map[string]bool{}
	for _, b := range line.Queued {
		name := cmp.Or(b.Spec.StorageLocation, fallback)
		if problem := problems[name]; problem != "" {
			line.Aside[b.Name] = queue.Reason{Reason: reasonLocation, Message: problem}
			waitedFor[name] = true
		}
	}
	for name := range waitedFor {
		q.Locations.Ask(name)
		again = askPause
	}
	return again, nil
}

// onLocation requests a decision when a location appears, disappears, or becomes available or unavailable.
func (q *Controller) onLocation() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, pending requests) { q.wake(pending) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, pending requests) {
			before, ok := e.ObjectOld.(*velerov1.BackupStorageLocation)
			after, also := e.ObjectNew.(*velerov1.BackupStorageLocation)
			if ok && also && (before.Status.Phase != after.Status.Phase || before.Spec.Default != after.Spec.Default) {
				q.wake(pending)
			}
		},
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, pending requests) { q.wake(pending) },
	}
}
