package repository

import (
	"context"
	"os"
	"time"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/maintenance"
	"github.com/kopia/kopia/snapshot/snapshotmaintenance"
)

// Maintain does the maintenance that is due. A snapshot that cannot be read is an error, because kopia's garbage
// collection would leave it out and delete its data. Space is freed a day after it became unused: whatever is younger
// may belong to a snapshot that is being made.
func Maintain(ctx context.Context, r *Repository, fullInterval time.Duration) error {
	if _, err := All(ctx, r); err != nil {
		return err
	}
	if fullInterval > 0 {
		if err := setMaintenance(ctx, r, fullInterval, false); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil { // kopia locks a file beside that of its config
		return err
	}
	defer func() { _ = r.clean() }()
	return repo.DirectWriteSession(ctx, r, repo.WriteSessionOptions{Purpose: "maintenance"},
		func(ctx context.Context, w repo.DirectRepositoryWriter) error {
			return snapshotmaintenance.Run(ctx, w, maintenance.ModeAuto, false, maintenance.SafetyFull)
		})
}
