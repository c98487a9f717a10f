package restore

import (
	"context"
	"encoding/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
)

// isFromFormerAttempt reports whether an object in the cluster was created by an attempt of this restore whose server
// died. Controllers may have changed it since. One that is older than the Restore has its labels from another one of the
// same name, for example.
func (r *itemRun) isFromFormerAttempt(live written) bool {
	labels := live.Metadata.Labels
	return r.engine.resumed && labels[velerov1.RestoreNameLabel] == r.engine.restoreLabel &&
		labels[velerov1.BackupNameLabel] == r.engine.backupLabel &&
		!live.Metadata.CreationTimestamp.Before(&r.engine.restore.CreationTimestamp)
}

// resume continues with an object that a former attempt has created. If it was not changed since, that attempt may
// have died before it restored status and field ownership.
func (r *itemRun) resume(ctx context.Context, to target, made written, own object.Ownership) error {
	r.claim.action, r.ownable = actionCreated, true
	r.finding.because("a former attempt of the restore has created it")
	r.log.Info("not restored again: a former attempt has created it")
	r.named(made.Metadata.Name)
	r.isUnready(to)
	var managers []json.RawMessage
	if json.Unmarshal(made.Metadata.ManagedFields, &managers) == nil && len(managers) > 1 {
		if to.gvr.GroupResource() == podsResource {
			r.runHooks(made)
			return r.adoptClaims(ctx, made.Metadata.Name, made.Metadata.UID)
		}
		return nil
	}
	return r.complete(ctx, to, made, own)
}
