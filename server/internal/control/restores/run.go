package restores

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/volume"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
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
	dryRun func(*pluginhost.Session) *restore.DryRun // nil for a real restore
	slot   restore.Slot                              // nil in a dry run

	account *restore.Account
	items   *outcome.Spool // of the account; nil in a dry run
	tally   store.Tally    // of the stored items; nil until they are stored

	operations *operation.Group // nil until the engine runs, and in a dry run
}

// do reads the archive, runs the engine and stores the log, the results and the resource list. It returns the change of
// status that follows, nil if the run is left to another server.
func (w *work) do() (end func(*velerov1.Restore)) {
	log := w.log.Logger()
	progress := w.follow()
	objects, err := run.PatientStores{Stores: w.Stores, For: w.StoreOutage, Log: log}.Open(w.run.Ctx, w.source.location)
	if err != nil {
		*w.object = *progress.End()
		if w.run.IsLeft(w.object) {
			return nil
		}
		return run.FailedRestore(w.run.Reason(err), w.Now())
	}
	if attempt := run.ClaimOf(w.object).Attempt; attempt > 1 {
		log.Warn("the server was stopped or killed in the attempt before; the restore goes on", "attempt", attempt)
	}
	log.Info("restore started", "backup", w.source.backup.Name, "storageLocation", w.source.location.Name)

	if w.items, err = outcome.NewSpool(w.SpoolDir); err != nil {
		*w.object = *progress.End()
		return run.FailedRestore(err, w.Now())
	}
	defer w.items.Remove()
	w.account = restore.NewAccount(w.items)
	defer w.Accounts.add(w.object.Name, w.account)()

	result := new(restore.Result)
	err = panics.Catch(log, func() error {
		done, err := w.apply(objects, progress)
		if done != nil {
			result = done
		}
		return err
	})
	*w.object = *progress.End()
	if err != nil && w.run.IsLeft(w.object) {
		forgetHooks(w.Hooks, w.object, w.server)
		return nil
	}
	run.ReportGaps(w.Events, w.object, "Restore", result.Gaps)
	if err != nil {
		reason := w.run.Reason(err)
		log.Error("restore failed", "error", reason)
		hooks := w.abortHooks(reason)
		if !errors.Is(reason, run.ErrDeleted) {
			result.Results.Errors.AddVelero(reason.Error())
			result.Results.Errors.Merge(hooks.Errors)
			w.put(objects, result)
			if err := appendLog(w.run.Final, objects, w.object.Name, w.LogOptions.Dir, hooks.Log); err != nil {
				w.server.Warn("could not store the log of the hooks", "error", err)
			}
		}
		forgetHooks(w.Hooks, w.object, w.server)
		counts := w.operations.Counts()
		return func(r *velerov1.Restore) {
			countRestore(r, result)
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, velerov1.ItemsAnnotation, w.tally.String())
			run.CountOperationsOfRestore(r, counts)
			r.Status.HookStatus = &hooks.Status
			run.FailedRestore(reason, w.Now())(r)
		}
	}
	log.Info("restore done", "items", result.ResourceList.Len(), "errors", result.Results.Errors.Count(), "warnings",
		result.Results.Warnings.Count())
	w.Logs.Late(operation.OfRestore, w.object)
	storing := w.follow()
	w.put(objects, result)
	*w.object = *storing.End()
	attempted := 0
	if hooks := w.Hooks.Of(w.object.UID); hooks != nil {
		hooks.Close()
		attempted = hooks.Status().HooksAttempted
	}
	return endOfRun(result, w.tally, attempted)
}

// follow writes the progress of the run, and what it waits for.
func (w *work) follow() *run.Progress[velerov1.Restore] {
	return run.Follow(w.run.Ctx, w.Cluster, w.object, "itemsRestored", w.log.Logger(), w.run.Cancel)
}

// apply unpacks the archive and runs the engine.
func (w *work) apply(objects *store.Store, progress *run.Progress[velerov1.Restore]) (*restore.Result, error) {
	objects, err := w.guarded(objects)
	if err != nil {
		return nil, err
	}
	contents, err := w.open(objects)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := contents.Close(); err != nil {
			w.server.Warn("could not remove the unpacked archive", "error", err)
		}
	}()
	stored, err := w.volumes(objects)
	if err != nil {
		return nil, err
	}
	journal, followed, err := w.run.FollowOperations(w.Journals, w.Monitor, run.OwnerOfRestore(w.object), w.object,
		w.object.Spec.ItemOperationTimeout.Duration)
	if err != nil {
		return nil, err
	}
	w.operations = followed
	progress.Operations(followed)
	hooks, err := w.beginHooks()
	if err != nil {
		return nil, err
	}
	session := w.Plugins.Session(string(w.object.UID), w.log.Logger())
	defer session.Close()
	absent := session.WarnOfAbsent(kinds.RestoreItemAction().Name, kinds.AsyncRestoreItemAction().Name)
	unknown := w.UnknownFields(w.run.Ctx, w.object, w.log.Logger())
	ctx := session.Trace(w.run.Ctx, "Restore", w.object.GetNamespace()+"/"+w.object.GetName())
	request := restore.Request{
		Restore:   w.object.DeepCopy(),
		Archive:   contents,
		Graph:     w.graph(objects, contents),
		Actions:   pluginhost.All(session, kinds.RestoreItemActions()...),
		Modifiers: w.source.modifiers,
		Versions:  w.source.versions,
		Volumes:   stored,
		Snapshots: restore.Snapshots{Open: w.Volumes.Open, Records: w.Volumes.Records},
		Account:   w.account,
		Slot:      w.slot,
		Resumed:   run.ClaimOf(w.object).Attempt > 1,
		Log:       w.log.Logger(),
		Journal:   journal,
		Followed:  followed,
		Progress:  progress.Set,
	}
	if w.Enclose != nil {
		request.Enclose = w.Enclose(w.object).Decide
	}
	if w.dryRun != nil {
		request.DryRun = w.dryRun(session)
	} else {
		request.Begun = w.recordScope // a dry run writes nothing for which others would wait
		request.Hooks = hooks
	}
	if w.source.policy != nil {
		request.Rules = w.source.policy.Rules
	}
	damage := run.Damage(w.source.backup)
	if damage != "" {
		w.log.Logger().Warn(damage)
	}
	result, err := w.Engine(ctx, request)
	if result != nil {
		result.Gaps = append(result.Gaps, unknown...)
		result.Results.Warnings.Merge(results.Result{Velero: slices.Concat(absent, unknown)})
		if damage != "" {
			result.Results.Warnings.AddVelero(damage)
		}
	}
	return result, errors.Join(err, journal.Flush(w.run.Final))
}

// guarded returns the location for the files of the backup; see Trust.
func (w *work) guarded(objects *store.Store) (*store.Store, error) {
	guarded, _, err := w.Trust.guarded(w.run.Ctx, w.object, objects, w.source.backup, w.SpoolDir)
	return guarded, err
}

// recordScope records what the restore may write, so that backups which have nothing of it in common need not wait.
// Without the record more of them do.
func (w *work) recordScope(scope restore.Scope) {
	changed := w.object.DeepCopy()
	if !queue.Scope(scope).Record(changed) {
		return
	}
	if err := w.Patch(w.run.Ctx, changed, client.MergeFrom(w.object)); err != nil {
		w.server.Warn("could not record what the restore writes; backups may wait for it that need not", "error", err)
	}
}

// volumes reads what the backup says about the data of volumes.
func (w *work) volumes(objects *store.Store) ([]*volume.Volume, error) {
	name := w.source.backup.Name
	infos, err := store.DecodeList[[]volumes.VolumeInfo](w.run.Ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos,
		name)
	if err != nil {
		return nil, err
	}
	snapshots, err := store.DecodeList[[]volumes.Snapshot](w.run.Ctx, objects,
		velerov1.DownloadTargetKindBackupVolumeSnapshots, name)
	if err != nil {
		return nil, err
	}
	var podVolumes []volume.PodVolume
	for one, err := range store.PodVolumeBackups[volume.PodVolume](w.run.Ctx, objects, name) {
		if err != nil {
			return nil, err
		}
		podVolumes = append(podVolumes, one)
	}
	return volume.List(infos, snapshots, podVolumes), nil
}

// open unpacks what may be restored of the archive of the backup to a file.
func (w *work) open(objects *store.Store) (*archive.Archive, error) {
	name := w.source.backup.Name
	stream, err := objects.BackupContents(w.run.Ctx, name)
	if err != nil {
		return nil, fmt.Errorf("download the archive of backup %s: %w", name, err)
	}
	defer func() { _ = stream.Close() }() // only read from
	contents, err := archive.Open(w.run.Ctx, stream, w.SpoolDir, archive.Options{
		AllVersions: w.AllVersions, Unpacks: plan.Unpacks(&w.object.Spec),
	})
	if err != nil {
		return nil, fmt.Errorf("read the archive of backup %s: %w", name, err)
	}
	return contents, nil
}

// put stores the files of the restore. A failure becomes an error of the result, because the cluster is restored
// anyway.
func (w *work) put(objects *store.Store, result *restore.Result) {
	failed := func(what string, err error) {
		w.server.Error("could not store a file of the restore", "file", what, "error", err)
		result.Results.Errors.AddVelero(fmt.Sprintf("error uploading the %s to backup storage: %v", what, err))
	}
	if err := w.putLog(objects); err != nil {
		failed("log", err)
	}
	name := w.object.Name
	if items, _, err := w.items.Finish(nil); err != nil {
		failed("items", err)
	} else if w.tally, err = objects.PutRestoreItems(w.run.Final, name, items); err != nil {
		failed("items", err)
	}
	operations := operation.NewFile(run.OwnerOfRestore(w.object), result.Operations)
	if err := store.PutJSON(w.run.Final, objects.PutRestoreResourceList, name, result.ResourceList); err != nil {
		failed("resource list", err)
	}
	if err := store.PutJSON(w.run.Final, objects.PutRestoreItemOperations, name, operations); err != nil {
		failed("item operations", err)
	}
	infos, err := w.Volumes.RestoredFrom(w.run.Final, w.object, result.ResourceList.Of("v1/PersistentVolumeClaim"),
		result.FromSnapshots)
	if err != nil {
		result.Results.Warnings.AddVelero("not known of what all volumes were made: " + err.Error())
	}
	if err := store.PutJSON(w.run.Final, objects.PutRestoreVolumeInfo, name, infos); err != nil {
		failed("volume info", err)
	}
	// The results come last: they include the failures of the others.
	if err := store.PutJSON(w.run.Final, objects.PutRestoreResults, name, result.Results); err != nil {
		failed("results", err)
	}
}

func (w *work) putLog(objects *store.Store) error {
	log, err := w.log.Reader()
	if err != nil {
		return err
	}
	return objects.PutRestoreLog(w.run.Final, w.object.Name, log)
}

// endOfRun returns the change of status after a successful run. A restore with operations waits for their ends, and
// then for its hooks.
func endOfRun(result *restore.Result, items store.Tally, hooks int) func(*velerov1.Restore) {
	return func(r *velerov1.Restore) {
		countRestore(r, result)
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, velerov1.ItemsAnnotation, items.String())
		r.Status.HookStatus = &velerov1.HookStatus{HooksAttempted: hooks}
		run.CountOperationsOfRestore(r, operation.Count(result.Operations))
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, velerov1.OperationsAnnotation, operation.Digest(result.Operations))
		waits, partially := len(result.Operations) > 0, r.Status.Errors > 0
		switch {
		case waits && partially:
			r.Status.Phase = velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed
		case waits:
			r.Status.Phase = velerov1.RestorePhaseWaitingForPluginOperations
		case partially:
			r.Status.Phase = velerov1.RestorePhaseFinalizingPartiallyFailed
		default:
			r.Status.Phase = velerov1.RestorePhaseFinalizing
		}
		items := result.ResourceList.Len()
		r.Status.Progress = &velerov1.RestoreProgress{TotalItems: items, ItemsRestored: items}
	}
}

// countRestore sets the numbers of errors and warnings.
func countRestore(r *velerov1.Restore, result *restore.Result) {
	r.Status.Warnings = result.Results.Warnings.Count()
	r.Status.Errors = result.Results.Errors.Count()
}
