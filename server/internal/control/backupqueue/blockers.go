package backupqueue

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// maxBlockers is the maximum number of backups that Blockers lists.
const maxBlockers = 50

// Blockers returns all backups for which a queued backup waits, in the order of the queue with the running ones first.
// The reason in the Backup names only the nearest one. Blockers calls the policy repeatedly with this backup alone in
// the queue, as if all backups ahead of it were running, each time without the backups that the policy has already
// named. It returns nil for a backup that is not queued.
func (q *Controller) Blockers(ctx context.Context, name string) (*serverreport.Blockers, error) {
	var list velerov1.BackupList
	if err := q.List(ctx, &list, client.InNamespace(q.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	backups := make([]*velerov1.Backup, 0, len(list.Items))
	for i := range list.Items {
		backups = append(backups, &list.Items[i])
	}
	line := queue.NewLine(backups)
	var err error
	if line.Restoring, err = q.restores(ctx); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(line.Queued, func(b *velerov1.Backup) bool { return b.Name == name })
	if at < 0 {
		return nil, nil
	}
	namespaces, _, err := q.namespaces(ctx)
	if err != nil {
		return nil, err
	}
	line.Queued = line.Queued[:at+1]
	snapshot := new(queue.Resolver).Snapshot(line, namespaces, 1, q.Now())
	ahead := slices.Concat(snapshot.Operating, snapshot.Restoring, snapshot.Running, snapshot.Ready, snapshot.Queued[:at])
	order := make([]string, 0, len(ahead))
	for i := range ahead {
		order = append(order, ahead[i].Name)
	}
	asked := &queueadmission.Snapshot{Input: queueadmission.Input{Now: snapshot.Now, Limit: len(ahead) + 1, Running: ahead,
		Queued: snapshot.Queued[at:]}}
	found := &serverreport.Blockers{Backup: name}
	for {
		outcome, err := q.Admission.Decide(ctx, asked)
		if err != nil {
			return nil, err
		}
		if len(outcome.Decision.Waiting) == 0 {
			break
		}
		named := outcome.Decision.Waiting[0].Blockers
		left := slices.DeleteFunc(slices.Clone(asked.Running),
			func(b queueadmission.Backup) bool { return slices.Contains(named, b.Name) })
		if len(left) == len(asked.Running) {
			break // the policy has another reason
		}
		found.Names = append(found.Names, named...)
		asked.Running = left
		if len(found.Names) >= maxBlockers {
			found.More = len(left) > 0
			break
		}
	}
	slices.SortFunc(found.Names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return found, nil
}
