package verification

import (
	"cmp"
	"context"
	"errors"
	"slices"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/bucket/verify"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/versioning"
)

// Repositories checks the data of volumes.
type Repositories interface {
	// Check has a data mover check the repository of the volumes of a namespace in a location: that all exists that
	// snapshots refer to, and with data that it can be read; and look for snapshots. The error is volumes.ErrNoMover if
	// the server does not have the mover, versioning.ErrNotFound if there is no repository, and versioning.ErrUnavailable
	// if it cannot be reached.
	Check(ctx context.Context, mover, location, namespace string, snapshots []string, data bool) (Checked, error)
}

// Checked is what a data mover has found in a repository that is whole.
type Checked struct {
	Warnings []string
	Looked   bool     // for the snapshots
	Missing  []string // snapshots that do not exist
}

// place is a repository.
type place struct{ mover, namespace string }

// lookAtVolumes looks at the snapshots of the volumes of a backup. Those that a data mover has stored are checked with
// their repository; there is no way to look at others without restoring them.
func lookAtVolumes(
	ctx context.Context, repositories Repositories, objects *store.Store, b *velerov1.Backup, d *trust.Document, data bool,
	r *verify.Report, progress func(at string),
) error {
	var all []trust.Volume
	if d != nil {
		all = d.Volumes
	} else {
		var err error
		if all, err = volumesOf(ctx, objects, b.Name, nil); err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				return err
			}
			r.Note("the volumes were not looked at, because the list of their snapshots is damaged")
			return nil
		}
	}
	others := 0
	at := map[place][]trust.Volume{}
	for _, v := range all {
		if v.Kind != trust.Repository {
			others++
			continue
		}
		p := place{v.By, v.Namespace}
		at[p] = append(at[p], v)
	}
	if others > 0 {
		r.Note("%d snapshots at storage systems were not looked at: that takes a restore", others)
	}
	places := make([]place, 0, len(at))
	for p := range at {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.mover, b.mover))
	})
	for _, p := range places {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		progress("the repository of namespace " + p.namespace)
		var ids []string
		for _, v := range at[p] {
			ids = append(ids, v.Snapshot)
		}
		checked, err := repositories.Check(ctx, p.mover, b.Spec.StorageLocation, p.namespace, ids, data)
		for _, warning := range checked.Warnings {
			r.Note("the repository of namespace %s: %s", p.namespace, warning)
		}
		switch {
		case err == nil && !checked.Looked:
			r.Note("the snapshots of %d volumes were not looked for: data mover %s cannot", len(ids), p.mover)
		case err == nil:
			for _, v := range at[p] {
				if slices.Contains(checked.Missing, v.Snapshot) {
					r.Add(velerov1.FindingMissing, v.Of, "snapshot %s, which has the data of the volume, is missing in the "+
						"repository of namespace %s", v.Snapshot, p.namespace)
				}
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, volumes.ErrNoMover):
			r.Note("%d volumes were not looked at: %v", len(at[p]), err)
		case errors.Is(err, versioning.ErrUnavailable):
			return err
		case errors.Is(err, versioning.ErrNotFound):
			for _, v := range at[p] {
				r.Add(velerov1.FindingMissing, v.Of, "the repository that has the data of the volume is missing")
			}
		default:
			for _, v := range at[p] {
				r.Add(velerov1.FindingChanged, v.Of, "the repository that has the data of the volume is damaged: %v", err)
			}
		}
	}
	return nil
}
