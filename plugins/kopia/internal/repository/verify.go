package repository

import (
	"context"
	"errors"
	"fmt"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/snapshotfs"
)

// maxDamage is how many damaged files are looked for.
const maxDamage = 10

// Verify makes sure that everything exists that snapshots refer to, and, if data is set, that it can be read.
func Verify(ctx context.Context, r *Repository, data bool) error {
	all, err := All(ctx, r)
	if err != nil {
		return err
	}
	blobs := map[blob.ID]blob.Metadata{}
	if err := r.BlobReader().ListBlobs(ctx, "", func(found blob.Metadata) error {
		blobs[found.BlobID] = found
		return nil
	}); err != nil {
		return fmt.Errorf("list the blobs: %w", err)
	}
	options := snapshotfs.VerifierOptions{BlobMap: blobs, MaxErrors: maxDamage}
	if data {
		options.VerifyFilesPercent = 100
	}
	verifier := snapshotfs.NewVerifier(ctx, r, options)
	result, err := verifier.InParallel(ctx, func(walker *snapshotfs.TreeWalker) error {
		var failed error
		for _, one := range all {
			if one.RootEntry == nil {
				return fmt.Errorf("the manifest of snapshot %s has no root", one.ID)
			}
			if err := walker.Process(ctx, snapshotfs.EntryFromDirEntry(r, one.RootEntry), string(one.ID)); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		return failed
	})
	if err == nil && result.ErrorCount > 0 {
		err = errors.Join(result.Errors...)
	}
	return err
}

// Forget removes snapshots.
func Forget(ctx context.Context, r *Repository, snapshots []*snapshot.Manifest) error {
	return repo.WriteSession(ctx, r, repo.WriteSessionOptions{Purpose: "forget"},
		func(ctx context.Context, w repo.RepositoryWriter) error {
			for _, one := range snapshots {
				if err := w.DeleteManifest(ctx, one.ID); err != nil {
					return fmt.Errorf("remove snapshot %s: %w", one.ID, err)
				}
			}
			return nil
		})
}
