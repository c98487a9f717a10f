package restores

import (
	"context"
	"errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
)

// Trust is which backups may be restored.
type Trust struct {
	// Required returns the keys of which one must have signed a backup; nil if a signature is not required.
	Required func(ctx context.Context) trust.Ring
	// Accepted returns the keys of which one must have signed a backup that is rehearsed and that this cluster has not
	// made.
	Accepted func(ctx context.Context) trust.Ring
}

// demands reports whether the files of the backup of a restore must have certain sums.
func (t Trust) demands(restore *velerov1.Restore) bool {
	return t.Required != nil || t.Accepted != nil && velerov1.IsRehearsal(restore)
}

// guarded returns the location for the files of a backup, which reads only those that must be restored, as they were
// when the backup was made. isRefused is set for an error that says why the backup must not be restored.
func (t Trust) guarded(
	ctx context.Context, restore *velerov1.Restore, objects *store.Store, backup *velerov1.Backup, dir string,
) (guarded *store.Store, isRefused bool, err error) {
	var sums store.Tally
	switch {
	case !t.demands(restore):
		return objects, false, nil
	case t.Required != nil:
		var signed *trust.Document
		if signed, err = t.Required(ctx).Require(ctx, objects, backup.Name, store.TallyOf(backup)); err == nil {
			sums = signed.Sums()
		}
	default:
		sums, err = t.Accepted(ctx).Vouch(ctx, objects, backup)
	}
	if err != nil {
		return nil, errors.Is(err, trust.ErrNotTrusted) || errors.Is(err, trust.ErrUnknownOrigin), err
	}
	return objects.Guarded(backup.Name, sums, dir), false, nil
}
