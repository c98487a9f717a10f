package backupqueue

import (
	"slices"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// maxStanding is the maximum number of backups from before the start of this process that are logged one by one.
const maxStanding = 50

// waitsForOther reports whether a backup will wait for a different reason, or for different backups, than now.
func waitsForOther(b *velerov1.Backup, wait *velerov1.QueueWait) bool {
	now, err := velerov1.QueueWaitOf(b)
	return err != nil || now == nil || now.Reason != wait.Reason || !slices.Equal(now.Blockers, wait.Blockers)
}

func (q *Controller) logWait(b *velerov1.Backup, position int, wait *velerov1.QueueWait) {
	details := []any{"backup", b.Namespace + "/" + b.Name, "position", position, "reason", wait.Reason, "message",
		wait.Message}
	if len(wait.Blockers) > 0 {
		details = append(details, "for", wait.Blockers)
	}
	q.Log.Info("backup waits", append(details, "since", wait.Since.UTC().Format(time.RFC3339))...)
}

// logStanding logs, once in a process, the backups that waited before the process started and still wait for the same.
func (q *Controller) logStanding(line queue.Line, plan queue.Plan) {
	if q.standing {
		return
	}
	q.standing = true
	moved := map[string]bool{}
	for _, b := range plan.Admit {
		moved[b.Name] = true
	}
	for i := range plan.Place {
		if p := &plan.Place[i]; p.Announce || waitsForOther(p.Backup, &p.Wait) {
			moved[p.Backup.Name] = true // and logged
		}
	}
	logged, others := 0, 0
	for _, b := range line.Queued {
		wait, err := velerov1.QueueWaitOf(b)
		switch {
		case moved[b.Name] || err != nil || wait == nil:
		case logged == maxStanding:
			others++
		default:
			q.logWait(b, b.Status.QueuePosition, wait)
			logged++
		}
	}
	if others > 0 {
		q.Log.Info("more backups wait", "backups", others)
	}
}
