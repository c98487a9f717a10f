package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	document "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Refresh reads the items again that the operations of a backup name for that; it is backup.Refresh with its Deps.
type Refresh func(
	ctx context.Context, req backup.Request, operations []operation.Operation, dir string,
) (*backup.Refreshed, error)

// operations returns the operations of a backup, which have ended.
func (r *Finalizer) operations(
	ctx context.Context, b *velerov1.Backup, objects *store.Store,
) ([]operation.Operation, error) {
	if b.Status.BackupItemOperationsAttempted == 0 {
		return nil, nil
	}
	want := b.Annotations[velerov1.OperationsAnnotation] // none if the record was lost while the backup waited
	file, err := store.DecodeList[operation.File](ctx, objects, velerov1.DownloadTargetKindBackupItemOperations, b.Name)
	if errors.Is(err, store.ErrDamaged) && want == "" {
		return nil, nil // it is in the results
	}
	if err != nil {
		return nil, err
	}
	operations, _ := file.Operations(run.OwnerOfBackup(b)) // as above
	if want != "" && want != operation.Digest(operations) {
		return nil, errors.New("somebody else than the server has written the file of the operations to the bucket, so " +
			"that it is not known which items have to be backed up again")
	}
	return operations, nil
}

// readsAgain reports whether operations have items that are read again after them.
func readsAgain(operations []operation.Operation) bool {
	return slices.ContainsFunc(operations, func(o operation.Operation) bool { return len(o.PostOperationItems) > 0 })
}

// refresh replaces in the archive what the operations of the backup name for that, as it is now that they have ended,
// and adds the problems to the results. It sets the number of errors and warnings in the status. It can be repeated.
func (r *Finalizer) refresh(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, operations []operation.Operation,
	status *velerov1.BackupStatus, log hclog.Logger,
) error {
	if !readsAgain(operations) {
		return nil
	}
	session := r.Plugins.Session(string(b.UID), log)
	defer session.Close()
	refreshed, err := r.Engine(session.Trace(ctx, "Backup", b.Namespace+"/"+b.Name), backup.Request{
		Backup:      b.DeepCopy(),
		Actions:     pluginhost.All(session, kinds.BackupItemActions()...),
		Concurrency: pluginhost.Concurrency(session, kinds.BackupItemActions()...),
		Log:         log,
	}, operations, r.SpoolDir)
	if err != nil {
		return fmt.Errorf("back up items again after the operations: %w", err)
	}
	defer func() {
		if err := refreshed.Close(); err != nil {
			log.Warn("could not remove the temporary file of the items", "error", err)
		}
	}()
	if refreshed.Changed() {
		if err := objects.ReplaceBackupContents(ctx, b.Name, refreshed.Rewrite); err != nil {
			return err
		}
	}
	if err := r.sumItems(ctx, b, objects); err != nil {
		return fmt.Errorf("sum the items again after the operations: %w", err)
	}
	log.Info("items were backed up again after the operations", "items", refreshed.Result.Items)
	described, err := r.describeAgain(ctx, session, b, objects, operations, log)
	if err != nil {
		return fmt.Errorf("describe the backup again after the operations: %w", err)
	}
	refreshed.Result.Results.Merge(described)
	return r.addRefreshed(ctx, b, objects, refreshed, status)
}

// sumItems stores the sums of the items in the archive as it is now, also if no item was read again: an attempt before
// may have replaced the archive.
func (r *Finalizer) sumItems(ctx context.Context, b *velerov1.Backup, objects *store.Store) error {
	sums, err := archive.NewSums(r.SpoolDir)
	if err != nil {
		return err
	}
	defer sums.Close()
	contents, err := objects.BackupContents(ctx, b.Name)
	if err != nil {
		return err
	}
	defer func() { _ = contents.Close() }() // only read from
	switch err := archive.Sum(ctx, contents, sums); {
	case archive.IsDamage(err): // the sum of the archive shows it
		return nil
	case err != nil:
		return err
	}
	content, err := sums.Content()
	if err != nil {
		return err
	}
	return objects.PutBackupItemSums(ctx, b.Name, content)
}

// describeAgain has the manifest writers describe the backup as its archive is now. It returns their failures. What the
// archive does not say comes from the manifest that there is. It does so even if no item was read again: an attempt
// before may have replaced the archive.
func (r *Finalizer) describeAgain(
	ctx context.Context, session *pluginhost.Session, b *velerov1.Backup, objects *store.Store,
	operations []operation.Operation, log hclog.Logger,
) (found results.Results, err error) {
	if !r.Manifests.Any() {
		return found, nil
	}
	origins, err := originsOf(ctx, b, objects, operations, log)
	if err != nil {
		return found, err
	}
	d, err := describe(ctx, r.Manifests, session, b, r.SpoolDir)
	if err != nil {
		return found, err
	}
	defer d.close()
	defer d.Abort() // unless it is finished
	contents, err := objects.BackupContents(ctx, b.Name)
	if err != nil {
		return found, err
	}
	defer func() { _ = contents.Close() }() // only read from
	err = manifest.Items(ctx, contents, r.References, origins, d.Add)
	if archive.IsDamage(err) {
		const text = "the manifests of the backup are as they were before its operations, because its archive cannot be read"
		found.Warnings.AddVelero(results.Message{Text: text, Err: err}.String())
		log.Warn(text, "error", err)
		return found, nil
	}
	if err != nil {
		return found, err
	}
	d.Finish()
	found = d.store(func(files map[string]io.ReadSeeker) error { return objects.ReplaceArtifacts(ctx, b.Name, files) },
		log)
	return found, context.Cause(ctx)
}

// originsOf returns what the manifest of a backup and its operations say about how its items came into it.
func originsOf(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, operations []operation.Operation, log hclog.Logger,
) (*manifest.Origins, error) {
	origins := manifest.NewOrigins()
	for _, op := range operations {
		of := &document.Ref{Group: op.Item.Group, Resource: op.Item.Resource, Namespace: op.Item.Namespace,
			Name: op.Item.Name}
		for _, id := range op.PostOperationItems {
			origins.Post(id, document.Inclusion{By: document.ByAction, Plugin: op.Action, Of: of})
		}
	}
	before, err := objects.Artifact(ctx, b.Name, document.FileName)
	if errors.Is(err, store.ErrNotFound) {
		return origins, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = before.Close() }() // only read from
	if err := origins.Read(before); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		log.Warn("the manifest of the backup cannot be read; the new one does not say how items came into the backup",
			"error", err)
	}
	return origins, nil
}

// addRefreshed adds the outcome to the resource list and the results of the backup.
func (r *Finalizer) addRefreshed(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, refreshed *backup.Refreshed,
	status *velerov1.BackupStatus,
) error {
	if len(refreshed.Added) > 0 {
		list, err := store.DecodeJSON[map[string][]string](ctx, objects, velerov1.DownloadTargetKindBackupResourceList,
			b.Name)
		if err != nil {
			return err
		}
		if list == nil {
			list = map[string][]string{}
		}
		for kind, names := range refreshed.Added {
			list[kind] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(list[kind], names))))
		}
		if err := store.PutJSON(ctx, objects.PutBackupResourceList, b.Name, list); err != nil {
			return err
		}
	}
	return r.addResults(ctx, b, objects, refreshed.Result.Results, status)
}

// addResults adds what the end of a backup has found to its results. It sets the number of errors and warnings in the
// status.
func (r *Finalizer) addResults(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, more results.Results, status *velerov1.BackupStatus,
) error {
	if more.Errors.Count()+more.Warnings.Count() == 0 {
		return nil
	}
	found, err := store.DecodeJSON[results.Results](ctx, objects, velerov1.DownloadTargetKindBackupResults, b.Name)
	if err != nil {
		return err
	}
	found.Errors.MergeNew(more.Errors)
	found.Warnings.MergeNew(more.Warnings)
	if err := store.PutJSON(ctx, objects.PutBackupResults, b.Name, found); err != nil {
		return err
	}
	status.Errors, status.Warnings = max(b.Status.Errors, found.Errors.Count()), max(b.Status.Warnings,
		found.Warnings.Count())
	if status.Errors > 0 {
		status.Phase = velerov1.BackupPhasePartiallyFailed
	}
	return nil
}
