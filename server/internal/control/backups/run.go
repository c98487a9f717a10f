package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
	"github.com/cleat-dev/cleat/server/internal/spec/gaps"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// work is the run of one backup.
type work struct {
	*Controller
	found    prepared
	run      *run.Run
	backup   *velerov1.Backup
	log      *runlog.Log
	accepted *backup.Accepted                          // nil if it accepts no dry run
	dryRun   func(*pluginhost.Session) *dryrun.Actions // nil for a real backup

	snapshots *volumes.Taker

	operations  *operation.Group // nil until the engine runs, and in a dry run
	description *description     // nil until the engine runs
	sums        *archive.Sums    // nil until the engine runs, and in a dry run
}

// do runs the engine, uploads the archive at the same time, and returns the change of status that follows, nil if the
// run is left to another server. After that the object storage holds either the whole backup or none, unless this
// server must not write to it any more.
func (w *work) do() (end func(*velerov1.Backup)) {
	progress := w.follow()
	upload, err := w.begin()
	if err != nil {
		*w.backup = *progress.End()
		return w.failed(err)
	}
	var result *backup.Result
	err = panics.Catch(w.log.Logger(), func() (err error) {
		result, err = w.collect(progress, upload.Contents())
		return err
	})
	*w.backup = *progress.End()
	if w.description != nil {
		defer w.description.close()
	}
	if w.sums != nil {
		defer w.sums.Close()
	}
	if err != nil {
		return w.abort(upload, w.run.Reason(err))
	}
	run.ReportGaps(w.Events, w.backup, "Backup", result.Gaps)
	end = endOfRun(result, w.Now())
	storing := w.follow()
	err = w.commit(upload, end, result)
	*w.backup = *storing.End()
	if err != nil {
		return w.failed(err)
	}
	return withTally(end, upload.Tally())
}

// withTally adds the sums of the files to the change of status that follows.
func withTally(end func(*velerov1.Backup), files store.Tally) func(*velerov1.Backup) {
	return func(b *velerov1.Backup) {
		end(b)
		files.Note(b)
	}
}

// follow writes the progress of the run, and what it waits for.
func (w *work) follow() *run.Progress[velerov1.Backup] {
	return run.Follow(w.run.Ctx, w.Cluster, w.backup, "itemsBackedUp", w.log.Logger(), w.run.Cancel)
}

// begin opens the object storage, removes what an attempt before has left, and begins the upload.
func (w *work) begin() (*store.Upload, error) {
	log := w.log.Logger()
	opened, err := w.patient(log).Open(w.run.Ctx, w.found.location)
	if err != nil {
		return nil, err
	}
	objects := opened.Of(w.backup)
	attempt := run.ClaimOf(w.backup).Attempt
	if attempt > 1 {
		log.Warn("the server was stopped or killed in the attempt before; the backup starts anew", "attempt", attempt)
		if err := objects.RemovePartial(w.run.Ctx, w.backup.Name, w.backup.UID); err != nil {
			return nil, fmt.Errorf("remove what the last attempt has left: %w", err)
		}
	}
	if w.snapshots, err = w.Volumes.Begin(w.run.Ctx, w.backup, attempt > 1, log); err != nil {
		return nil, err
	}
	if w.accepted, err = w.accept(objects); err != nil {
		return nil, err
	}
	upload, err := objects.BeginBackup(w.run.Ctx, w.backup.Name, w.LogOptions.Dir)
	if err == nil {
		log.Info("backup started", "storageLocation", w.found.location.Name)
	}
	return upload, err
}

// failed returns the change of status after a fatal error, nil if the run is left to another server.
func (w *work) failed(err error) (end func(*velerov1.Backup)) {
	if w.run.IsLeft(w.backup) {
		return nil
	}
	failed, counts := run.FailedBackup(w.run.Reason(err), w.Now()), w.operations.Counts()
	return func(b *velerov1.Backup) {
		failed(b)
		run.CountOperationsOfBackup(b, counts)
	}
}

func (w *work) collect(progress *run.Progress[velerov1.Backup], contents io.Writer) (*backup.Result, error) {
	journal, followed, err := w.run.FollowOperations(w.Journals, w.Monitor, run.OwnerOfBackup(w.backup), w.backup,
		w.backup.Spec.ItemOperationTimeout.Duration)
	if err != nil {
		return nil, err
	}
	w.operations = followed
	progress.Operations(followed)
	session := w.Plugins.Session(string(w.backup.UID), w.log.Logger())
	defer session.Close()
	absent := session.WarnOfAbsent(kinds.BackupItemAction().Name, kinds.AsyncBackupItemAction().Name,
		kinds.ItemBlockAction().Name,
		kinds.ManifestWriter().Name)
	without := w.withoutEffect()
	ctx := session.Trace(w.run.Ctx, "Backup", w.backup.Namespace+"/"+w.backup.Name)
	if w.dryRun == nil {
		if w.sums, err = archive.NewSums(w.LogOptions.Dir); err != nil {
			return nil, err
		}
	}
	if w.description, err = describe(ctx, w.Manifests, session, w.backup, w.LogOptions.Dir); err != nil {
		return nil, err
	}
	defer w.description.Abort() // unless it is finished
	request := backup.Request{
		Backup:       w.backup.DeepCopy(),
		Actions:      pluginhost.All(session, kinds.BackupItemActions()...),
		Concurrency:  pluginhost.Concurrency(session, kinds.BackupItemActions()...),
		BlockActions: pluginhost.All(session, kinds.ItemBlockAction()),
		Policy:       w.found.policy,
		Snapshots:    w.snapshots,
		Accepted:     w.accepted,
		Sums:         w.sums,
		Log:          w.log.Logger(),
		Journal:      journal,
		Followed:     followed,
		Progress:     progress.Set,
	}
	if w.dryRun != nil {
		request.DryRun = w.dryRun(session)
	}
	if w.Manifests.Any() {
		request.Manifest = w.description
	}
	result, err := w.Engine(ctx, request, contents)
	if err == nil {
		w.description.Finish()
	}
	if result != nil {
		result.Gaps = append(result.Gaps, without...)
		result.Results.Warnings.Merge(results.Result{Velero: slices.Concat(absent, without)})
	}
	return result, errors.Join(err, journal.Flush(w.run.Final))
}

// withoutEffect returns warnings about fields of the spec and of the policy without effect, and logs them.
func (w *work) withoutEffect() []string {
	warnings := gaps.Warnings(gaps.Backup(), &w.backup.Spec)
	if policy := w.found.policy; policy != nil {
		warnings = append(warnings, policy.Warnings...)
		if mover := w.backup.Spec.DataMover; policy.VolumePolicies.NamesMover() && !velerov1.IsVeleroDataMover(mover) {
			warnings = append(warnings, fmt.Sprintf("the parameter dataMover of volume policies has no effect: "+
				"spec.datamover names %s for all volumes of the backup", mover))
		}
	}
	for _, warning := range warnings {
		w.log.Logger().Warn(warning)
	}
	return append(warnings, w.UnknownFields(w.run.Ctx, w.backup, w.log.Logger())...)
}

// endOfRun returns the change of status after a successful run. A backup with operations waits for their ends. For one
// without, this is when it is completed: who finalizes it, once or again, writes that.
func endOfRun(result *backup.Result, now time.Time) func(*velerov1.Backup) {
	return func(b *velerov1.Backup) {
		b.Status.Warnings = result.Results.Warnings.Count()
		b.Status.Errors = result.Results.Errors.Count()
		run.CountOperationsOfBackup(b, operation.Count(result.Operations))
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.OperationsAnnotation, operation.Digest(result.Operations))
		b.Status.HookStatus = &result.Hooks
		b.Status.VolumeSnapshotsAttempted, b.Status.VolumeSnapshotsCompleted = len(result.Snapshots), 0
		for _, s := range result.Snapshots {
			if s.Status.Phase == volumes.Completed {
				b.Status.VolumeSnapshotsCompleted++
			}
		}
		b.Status.CSIVolumeSnapshotsAttempted = len(result.CSI.Snapshots)
		b.Status.Progress = &velerov1.BackupProgress{TotalItems: result.Items, ItemsBackedUp: result.Items}
		waits, partially := len(result.Operations) > 0, b.Status.Errors > 0
		switch {
		case waits && partially:
			b.Status.Phase = velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed
		case waits:
			b.Status.Phase = velerov1.BackupPhaseWaitingForPluginOperations
		case partially:
			b.Status.Phase = velerov1.BackupPhaseFinalizingPartiallyFailed
		default:
			b.Status.Phase = velerov1.BackupPhaseFinalizing
		}
		if !waits {
			b.Status.CompletionTimestamp = run.Timestamp(now)
		}
		queue.Occupy(b, operation.Namespaces(result.Operations))
	}
}

// commit stores the files of the backup, which makes it visible.
func (w *work) commit(upload *store.Upload, end func(*velerov1.Backup), result *backup.Result) error {
	if err := w.stillClaimed(); err != nil {
		w.run.Cancel(err)
		return errors.Join(err, w.giveUp(upload))
	}
	result.Results.Merge(w.description.store(func(files map[string]io.ReadSeeker) error {
		return upload.PutArtifacts(w.run.Ctx, w.backup.UID, files)
	}, w.log.Logger()))
	files, err := w.files(end, result)
	if err != nil {
		return errors.Join(err, upload.Abort(w.run.Final, nil, nil))
	}
	w.log.Logger().Info("backup stored", "items", result.Items, "errors", result.Results.Errors.Count(), "warnings",
		result.Results.Warnings.Count())
	w.Logs.Late(operation.OfBackup, w.backup)
	log, err := w.log.Reader()
	if err != nil {
		w.Log.Warn("cannot store the log of the backup", "backup", w.backup.Name, "error", err)
	} else {
		files.Log = log
	}
	if err := upload.Commit(w.run.Ctx, files); err != nil {
		return err
	}
	w.Metrics.BackupStored(w.backup, upload.ArchiveSize())
	return nil
}

// giveUp ends the upload. It deletes what was uploaded, unless another server has taken up the backup: then all files
// are of that one.
func (w *work) giveUp(upload *store.Upload) error {
	if cause := context.Cause(w.run.Ctx); errors.Is(cause, run.ErrLostLead) || errors.Is(cause, run.ErrTakenUp) {
		upload.Leave()
		return nil
	}
	return upload.Abort(w.run.Final, nil, nil)
}

// stillClaimed returns run.ErrTakenUp if another process has taken up the backup, and run.ErrDeleted if it was deleted.
// The fence keeps this process from writing if another one may have; this is the look at what it would have written.
func (w *work) stillClaimed() error {
	var now velerov1.Backup
	err := w.Live.Get(w.run.Ctx, client.ObjectKeyFromObject(w.backup), &now)
	switch {
	case apierrors.IsNotFound(err), err == nil && now.UID != w.backup.UID:
		return run.ErrDeleted
	case err != nil:
		return fmt.Errorf("look at the backup before it is stored: %w", err)
	case run.ClaimOf(&now) != run.ClaimOf(w.backup):
		return run.ErrTakenUp
	}
	return nil
}

// files returns the files of the backup except for the archive and the log.
func (w *work) files(end func(*velerov1.Backup), result *backup.Result) (store.Artifacts, error) {
	ended := w.backup.DeepCopy()
	end(ended)
	metadata, err := encodeBackup(ended)
	if err != nil {
		return store.Artifacts{}, err
	}
	files := store.Artifacts{
		Metadata: metadata,
		Warn: func(err error) {
			w.Log.Warn("could not store the log of the backup", "backup", w.backup.Name, "error", err)
		},
	}
	for _, file := range []struct {
		reader *io.ReadSeeker
		encode func() (io.ReadSeeker, error)
	}{
		{&files.Results, func() (io.ReadSeeker, error) { return store.EncodeJSON(result.Results) }},
		{&files.ResourceList, func() (io.ReadSeeker, error) { return store.EncodeJSON(result.ResourceList) }},
		{&files.ItemSums, w.sums.Content},
		{&files.PodVolumeBackups, func() (io.ReadSeeker, error) { return store.EncodeJSON([]struct{}{}) }},
		{&files.VolumeSnapshots, func() (io.ReadSeeker, error) { return store.EncodeJSON(result.Snapshots) }},
		{&files.ItemOperations, func() (io.ReadSeeker, error) {
			return store.EncodeJSON(operation.NewFile(run.OwnerOfBackup(w.backup), result.Operations))
		}},
		{&files.VolumeInfo, func() (io.ReadSeeker, error) { return store.EncodeJSON(result.Volumes) }},
		{&files.CSISnapshots, func() (io.ReadSeeker, error) { return encodeCSI(result.CSI.Snapshots) }},
		{&files.CSIContents, func() (io.ReadSeeker, error) { return encodeCSI(result.CSI.Contents) }},
		{&files.CSIClasses, func() (io.ReadSeeker, error) { return encodeCSI(result.CSI.Classes) }},
	} {
		if *file.reader, err = file.encode(); err != nil {
			return store.Artifacts{}, err
		}
	}
	return files, nil
}

// encodeCSI encodes a list of objects, nil if it is empty: not each backup has these files.
func encodeCSI(list []json.RawMessage) (io.ReadSeeker, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return store.EncodeJSON(list)
}

// abort ends a run with a fatal error. It stores no archive, only the log and the metadata, and nothing at all if the
// backup was deleted or is left to another server.
func (w *work) abort(upload *store.Upload, reason error) (end func(*velerov1.Backup)) {
	end = w.failed(reason)
	if end == nil || errors.Is(reason, run.ErrDeleted) {
		if err := w.giveUp(upload); err != nil {
			w.Log.Warn("could not delete what the backup has uploaded", "backup", w.backup.Name, "because", reason, "error", err)
		}
		return end
	}
	w.log.Logger().Error("backup failed", "error", reason)
	ended := w.backup.DeepCopy()
	end(ended)
	metadata, err := encodeBackup(ended)
	if err != nil {
		metadata = nil
	}
	var log io.ReadSeeker
	if r, logErr := w.log.Reader(); logErr == nil {
		log = r
	}
	if err := errors.Join(err, upload.Abort(w.run.Final, log, metadata)); err != nil {
		w.Log.Error("could not clean up after the failed backup in the object storage", "backup", w.backup.Name, "error", err)
		if errors.Is(err, store.ErrNotCleaned) {
			return run.FailedBackup(fmt.Errorf("%w (%w)", reason, store.ErrNotCleaned), w.Now())
		}
	}
	return end
}
