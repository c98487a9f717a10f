package restores

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/server/restore"
	"github.com/cleat-dev/cleat/server/restore/volume"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/runlog"
	"github.com/cleat-dev/cleat/server/store"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// work is the run of one restore.
type work struct {
	*Controller
	run    *run.Run
	object *velerov1.Restore
	source source
	log    *runlog.Log
	server hclog.Logger
}

// do reads the archive, runs the engine and stores the log, the results and the resource list. It returns the change of
// status that follows, nil if the run is left to another server.
func (w *work) do() (end func(*velerov1.Restore)) {
	log := w.log.Logger()
	objects, err := run.PatientStores{Stores: w.Stores, For: w.StoreOutage, Log: log}.Open(w.run.Ctx, w.source.location)
	if err != nil {
		if w.run.IsLeft(w.object) {
			return nil
		}
		return run.FailedRestore(w.run.Reason(fmt.Errorf("open backup storage location %s: %w", w.source.location.Name, err)), w.Now())
	}
	if attempt := run.ClaimOf(w.object).Attempt; attempt > 1 {
		log.Warn("the server was stopped or killed in the attempt before; the restore goes on", "attempt", attempt)
	}
	log.Info("restore started", "backup", w.source.backup.Name, "storageLocation", w.source.location.Name)

	result := new(restore.Result)
	progress := run.Follow(w.run.Ctx, w.Cluster, w.object, "itemsRestored", log, w.run.Cancel)
	err = run.CatchPanics(log, func() error {
		done, err := w.apply(objects, progress.Set)
		if done != nil {
			result = done
		}
		return err
	})
	*w.object = *progress.End()
	if err != nil && w.run.IsLeft(w.object) {
		return nil
	}
	run.ReportGaps(w.Events, w.object, "Restore", result.Gaps)
	if err != nil {
		reason := w.run.Reason(err)
		log.Error("restore failed", "error", reason)
		if !errors.Is(reason, run.ErrDeleted) {
			result.Results.Errors.AddVelero(reason.Error())
			w.put(objects, result)
		}
		return func(r *velerov1.Restore) {
			countRestore(r, result)
			run.FailedRestore(reason, w.Now())(r)
		}
	}
	w.warnOfOperations(result)
	log.Info("restore done", "items", result.Items, "errors", result.Results.Errors.Count(), "warnings", result.Results.Warnings.Count())
	w.put(objects, result)
	return finalizingRestore(result)
}

// apply unpacks the archive and runs the engine.
func (w *work) apply(objects *store.Store, show func(done, total int)) (*restore.Result, error) {
	contents, err := w.open(objects)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := contents.Close(); err != nil {
			w.server.Warn("could not remove the unpacked archive", "error", err)
		}
	}()
	volumes, err := w.volumes(objects)
	if err != nil {
		return nil, err
	}
	session := w.Plugins.Session(w.log.Logger())
	defer session.Close()
	ctx := session.Trace(w.run.Ctx, "Restore", w.object.GetNamespace()+"/"+w.object.GetName())
	request := restore.Request{
		Restore:   w.object.DeepCopy(),
		Archive:   contents,
		Actions:   pluginhost.All(session, kinds.RestoreItemActions()...),
		Modifiers: w.source.modifiers,
		Versions:  w.source.versions,
		Volumes:   volumes,
		Resumed:   run.ClaimOf(w.object).Attempt > 1,
		Log:       w.log.Logger(),
		Progress:  show,
	}
	if w.source.policy != nil {
		request.Rules = w.source.policy.Rules
	}
	return w.Engine(ctx, request)
}

// volumes reads what the backup says about the data of volumes.
func (w *work) volumes(objects *store.Store) ([]*volume.Volume, error) {
	name := w.source.backup.Name
	infos, err := store.DecodeJSON[[]volume.Info](w.run.Ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos, name)
	if err != nil {
		return nil, err
	}
	snapshots, err := store.DecodeJSON[[]volume.Snapshot](w.run.Ctx, objects, velerov1.DownloadTargetKindBackupVolumeSnapshots, name)
	if err != nil {
		return nil, err
	}
	podVolumes, err := store.DecodePodVolumeBackups[[]volume.PodVolume](w.run.Ctx, objects, name)
	if err != nil {
		return nil, err
	}
	return volume.List(infos, snapshots, podVolumes), nil
}

// open downloads the archive of the backup to a file.
func (w *work) open(objects *store.Store) (*archive.Archive, error) {
	name := w.source.backup.Name
	stream, err := objects.BackupContents(w.run.Ctx, name)
	if err != nil {
		return nil, fmt.Errorf("download the archive of backup %s: %w", name, err)
	}
	defer func() { _ = stream.Close() }() // only read from
	read := archive.Open
	if w.AllVersions {
		read = archive.OpenVersions
	}
	contents, err := read(w.run.Ctx, stream, w.SpoolDir, archive.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("read the archive of backup %s: %w", name, err)
	}
	return contents, nil
}

// put stores the files of the restore. A failure becomes an error of the result, because the cluster is restored anyway.
func (w *work) put(objects *store.Store, result *restore.Result) {
	failed := func(what string, err error) {
		w.server.Error("could not store a file of the restore", "file", what, "error", err)
		result.Results.Errors.AddVelero(fmt.Sprintf("error uploading the %s to backup storage: %v", what, err))
	}
	if err := w.putLog(objects); err != nil {
		failed("log", err)
	}
	name := w.object.Name
	none := []struct{}{}
	if err := putJSON(w.run.Final, objects.PutRestoreResourceList, name, result.ResourceList); err != nil {
		failed("resource list", err)
	}
	if err := putJSON(w.run.Final, objects.PutRestoreItemOperations, name, none); err != nil {
		failed("item operations", err)
	}
	// The results come last: they include the failures of the others.
	if err := putJSON(w.run.Final, objects.PutRestoreResults, name, result.Results); err != nil {
		failed("results", err)
	}
}

func (w *work) putLog(objects *store.Store) error {
	log, err := w.log.Reader()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only read from
	return objects.PutRestoreLog(w.run.Final, w.object.Name, log)
}

func putJSON[T any](ctx context.Context, put func(context.Context, string, io.ReadSeeker) error, name string, value T) error {
	data, err := store.EncodeJSON(value)
	if err != nil {
		return err
	}
	return put(ctx, name, data)
}

// warnOfOperations adds a warning for each operation that an action has started: the restore does not wait for it.
func (w *work) warnOfOperations(result *restore.Result) {
	for _, operation := range result.Operations {
		message := results.Message{
			Resource: operation.Item.GroupResource(), Name: operation.Item.Name,
			Text: fmt.Sprintf("plugin %s started operation %s; asynchronous operations are not supported yet, its end is not awaited and spec.itemOperationTimeout has no effect", operation.Action, operation.ID),
		}
		result.Results.Warnings.Add(operation.Item.Namespace, message.String())
		w.log.Logger().Warn(message.Text, "resource", message.Resource, "namespace", operation.Item.Namespace, "name", message.Name)
	}
}

// finalizingRestore returns the change of status after a successful run.
func finalizingRestore(result *restore.Result) func(*velerov1.Restore) {
	return func(r *velerov1.Restore) {
		countRestore(r, result)
		r.Status.Phase = velerov1.RestorePhaseFinalizing
		if r.Status.Errors > 0 {
			r.Status.Phase = velerov1.RestorePhaseFinalizingPartiallyFailed
		}
		r.Status.Progress = &velerov1.RestoreProgress{TotalItems: result.Items, ItemsRestored: result.Items}
	}
}

// countRestore sets the numbers of errors and warnings.
func countRestore(r *velerov1.Restore, result *restore.Result) {
	r.Status.Warnings = result.Results.Warnings.Count()
	r.Status.Errors = result.Results.Errors.Count()
}
