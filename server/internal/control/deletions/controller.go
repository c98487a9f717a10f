package deletions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Controller carries out DeleteBackupRequests. It repeats a request that a former server has begun.
type Controller struct {
	*run.Cluster
	Stores       run.Stores
	StoreOutage  time.Duration // how long a deletion waits for its object store
	Plugins      run.Plugins
	Engine       Engine
	Snapshotters run.Snapshotters
	// Repositories has the data of volumes.
	Repositories deletion.Repositories
	Keys         *loadkey.Keys // of loads; nil trusts all
	SpoolDir     string        // for archives that are read; empty means the system's directory for temporary files
	Metrics      *metrics.Metrics
	Events       events.EventRecorder
	Log          hclog.Logger
	Now          func() time.Time
}

// Setup makes a controller of requests. A change of the phase, which only this controller writes, does not lead to
// another look.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	return b.For(&velerov1.DeleteBackupRequest{},
		builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*velerov1.DeleteBackupRequest)
			after, also := e.ObjectNew.(*velerov1.DeleteBackupRequest)
			return ok && also && before.Status.Phase == after.Status.Phase
		}}))
}

// Engine calls the DeleteItemActions of plugins; it is deletion.Run with its Deps.
type Engine func(context.Context, deletion.Request) error

const (
	// keepRequest is how long a DeleteBackupRequest with errors is kept, from its creation.
	keepRequest = 24 * time.Hour

	// waitForRestores is how long a deletion waits until the restores of the backup are deleted, beside an outage of the
	// store.
	waitForRestores = time.Minute
	restoresPoll    = 250 * time.Millisecond

	maxFailure = 4000 // bytes of a reason in an annotation
	maxNamed   = 200  // bytes of the name of something that a file of a backup names
)

// refusal is a permanent reason not to delete a backup.
type refusal string

func (r refusal) Error() string { return string(r) }

// Reconcile carries out one request. The status of the request gets the reason why the backup could not be deleted. An
// error means that the status could not be determined or written.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	request := new(velerov1.DeleteBackupRequest)
	if err := r.Get(ctx, req.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if request.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed {
		return r.expire(ctx, request)
	}
	log := r.Log.With("backup", request.Spec.BackupName, "request", req.String())

	backup, location, err := r.begin(ctx, request)
	record := &audit{request: request, backup: backup}
	if errors.Is(err, run.ErrNotFound) && hasBegun(request) {
		// A former server has deleted the backup, but not the requests.
		record.report(r.Log, r.Events, outcomeDeleted, nil)
		return ctrl.Result{}, r.removeRequests(ctx, request, nil)
	}
	if errors.Is(err, run.ErrNotFound) {
		err = refusal("backup not found")
	}
	if errors.Is(err, run.ErrLocationAway) {
		log.Debug("the deletion goes on when the backup storage location is available")
		return ctrl.Result{RequeueAfter: run.WaitDelay}, r.wait(ctx, request, "waits: "+run.LocationProblem(location))
	}
	if _, refused := errors.AsType[refusal](err); refused {
		record.report(r.Log, r.Events, outcomeRefused, err)
		return ctrl.Result{RequeueAfter: keepRequest}, r.process(ctx, request, err)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("begin to delete the backup: %w", err)
	}
	log.Info("deleting the backup")
	r.Metrics.DeletionStarted(backup)
	err = panics.Catch(log, func() error { return r.delete(ctx, record, location, log) })
	r.Metrics.DeletionEnded(backup, err)
	switch {
	case err == nil:
		record.report(r.Log, r.Events, outcomeDeleted, nil)
		return ctrl.Result{}, r.removeRequests(ctx, request, nil)
	case ctx.Err() != nil: // the server stops; the next one continues
		return ctrl.Result{}, nil
	default:
		record.report(r.Log, r.Events, outcomeFailed, err)
		if err := r.noteFailure(ctx, backup, err); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: keepRequest}, r.process(ctx, request, err)
	}
}

// noteFailure writes to the backup why its deletion has failed, which outlives the request.
func (r *Controller) noteFailure(ctx context.Context, backup *velerov1.Backup, reason error) error {
	before := backup.DeepCopy()
	metav1.SetMetaDataAnnotation(&backup.ObjectMeta, velerov1.DeletionFailureAnnotation,
		shorten.Text(reason.Error(), maxFailure))
	if err := r.Patch(ctx, backup, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write to the backup why its deletion has failed: %w", err)
	}
	return nil
}

// wait writes to the request what it waits for.
func (r *Controller) wait(ctx context.Context, request *velerov1.DeleteBackupRequest, reason string) error {
	if slices.Equal(request.Status.Errors, []string{reason}) {
		return nil
	}
	before := request.DeepCopy()
	request.Status.Errors = []string{reason}
	return client.IgnoreNotFound(r.Patch(ctx, request, client.MergeFrom(before)))
}

// expire deletes a request when it is old enough.
func (r *Controller) expire(ctx context.Context, request *velerov1.DeleteBackupRequest) (ctrl.Result, error) {
	if left := request.CreationTimestamp.Add(keepRequest).Sub(r.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, request))
}

// begin checks the request and moves it to InProgress and its backup to Deleting. It returns run.ErrNotFound if the
// backup does not exist or is not the one with the uid of the request's label. Otherwise it returns the backup, even
// with an error, and its location with run.ErrLocationAway.
func (r *Controller) begin(
	ctx context.Context, request *velerov1.DeleteBackupRequest,
) (*velerov1.Backup, *velerov1.BackupStorageLocation, error) {
	if request.Spec.BackupName == "" {
		return nil, nil, refusal("spec.backupName is required")
	}
	if err := kubeapi.CheckName("spec.backupName", request.Spec.BackupName); err != nil {
		return nil, nil, refusal(err.Error())
	}
	backup, err := r.backup(ctx, r.Client, request)
	if errors.Is(err, run.ErrNotFound) || err == nil && run.BackupBusy(run.BackupPhase(backup)) {
		backup, err = r.backup(ctx, r.Live, request) // the cache may be too old to refuse the request
	}
	if err != nil {
		return nil, nil, err
	}
	if run.BackupBusy(run.BackupPhase(backup)) {
		return backup, nil, refusal("backup is still in progress")
	}
	if err := r.unused(ctx, request, backup); err != nil {
		return backup, nil, err
	}
	location, err := r.writableLocation(ctx, backup)
	if errors.Is(err, run.ErrLocationAway) && !hasBegun(request) {
		err = refusal("cannot delete backup because " + run.LocationProblem(location))
	}
	if err != nil {
		return backup, location, err
	}
	if err := r.label(ctx, request, backup); err != nil {
		return backup, nil, err
	}
	if err := r.removeRequests(ctx, request, request); err != nil {
		return backup, nil, err
	}
	if run.BackupPhase(backup) != velerov1.BackupPhaseDeleting {
		err = r.AdvanceBackup(ctx, backup, func(b *velerov1.Backup) error {
			if b.Annotations == nil {
				b.Annotations = make(map[string]string)
			}
			b.Annotations[run.DeletedInPhaseAnnotation] = string(run.BackupPhase(b))
			b.Status.Phase = velerov1.BackupPhaseDeleting
			b.Status.QueuePosition = 0
			return nil
		})
	}
	switch {
	case errors.Is(err, run.ErrPhaseChanged):
		return backup, nil, refusal("backup is still in progress")
	case err != nil: // run.ErrNotFound as well
		return backup, nil, fmt.Errorf("set the backup's phase to Deleting: %w", err)
	}
	return backup, location, nil
}

// hasBegun reports whether a server has begun to carry out a request. One that was created in that phase says so by its
// maker only.
func hasBegun(request *velerov1.DeleteBackupRequest) bool {
	return request.Status.Phase == velerov1.DeleteBackupRequestPhaseInProgress && !velerov1.IsAsCreated(request)
}

// backup reads the backup of a request. It returns run.ErrNotFound if that does not exist or is another one than the
// label says.
func (r *Controller) backup(
	ctx context.Context, reader client.Reader, request *velerov1.DeleteBackupRequest,
) (*velerov1.Backup, error) {
	backup := new(velerov1.Backup)
	err := reader.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.BackupName}, backup)
	if apierrors.IsNotFound(err) || err == nil && request.Labels[velerov1.BackupUIDLabel] != "" &&
		request.Labels[velerov1.BackupUIDLabel] != string(backup.UID) {
		return nil, run.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get the backup: %w", err)
	}
	return backup, nil
}

// unused refuses to delete a backup while a restore reads it, because the restore would stay incomplete. A restore that
// starts after this check finds the request or is stopped before its backup is deleted.
func (r *Controller) unused(ctx context.Context, request *velerov1.DeleteBackupRequest, backup *velerov1.Backup) error {
	if run.BackupPhase(backup) == velerov1.BackupPhaseDeleting && hasBegun(request) {
		return nil
	}
	restores, err := r.restoresOf(ctx, backup)
	if err != nil {
		return err
	}
	for i := range restores {
		restore := &restores[i]
		phase := run.RestorePhase(restore)
		if restore.DeletionTimestamp == nil && phase != velerov1.RestorePhaseNew && !phase.Terminal() {
			return refusal(fmt.Sprintf("restore %s from this backup is %s; delete the backup when it has ended, or delete the "+
				"restore first", restore.Name, phase))
		}
	}
	return nil
}

// restoresOf returns the restores of a backup. The cache has every restore that this server has begun, but maybe not
// its current phase. So restoresOf asks the API server only if the cache has some.
func (r *Controller) restoresOf(ctx context.Context, backup *velerov1.Backup) ([]velerov1.Restore, error) {
	restores, err := readRestores(ctx, r.Client, backup)
	if err == nil && len(restores) > 0 {
		restores, err = readRestores(ctx, r.Live, backup)
	}
	if err != nil {
		return nil, fmt.Errorf("list the restores of the backup: %w", err)
	}
	return restores, nil
}

func readRestores(ctx context.Context, reader client.Reader, backup *velerov1.Backup) ([]velerov1.Restore, error) {
	var list velerov1.RestoreList
	err := reader.List(ctx, &list, client.InNamespace(backup.Namespace))
	return slices.DeleteFunc(list.Items,
		func(restore velerov1.Restore) bool { return restore.Spec.BackupName != backup.Name }), err
}

// writableLocation returns the location of a backup, or nil if the backup was never stored. If the location is not
// available, the error is run.ErrLocationAway.
func (r *Controller) writableLocation(
	ctx context.Context, backup *velerov1.Backup,
) (*velerov1.BackupStorageLocation, error) {
	name := backup.Spec.StorageLocation
	if run.NeverStored(backup) {
		return nil, nil
	}
	location, err := r.GetLocation(ctx, name)
	if errors.Is(err, run.ErrLocationNotFound) {
		return nil, refusal(fmt.Sprintf("backup storage location %s not found", name))
	}
	if err != nil {
		return nil, err
	}
	if run.ReadOnly(location) {
		return nil, refusal(fmt.Sprintf("cannot delete backup because backup storage location %s is currently in read-only "+
			"mode", name))
	}
	if run.LocationProblem(location) != "" {
		return location, run.ErrLocationAway
	}
	return location, nil
}

// label moves the request to InProgress and labels it with the backup.
func (r *Controller) label(ctx context.Context, request *velerov1.DeleteBackupRequest, backup *velerov1.Backup) error {
	before := request.DeepCopy()
	if request.Labels == nil {
		request.Labels = make(map[string]string)
	}
	request.Labels[velerov1.BackupNameLabel] = velerov1.ValidLabelValue(backup.Name)
	request.Labels[velerov1.BackupUIDLabel] = string(backup.UID)
	request.Status.Phase = velerov1.DeleteBackupRequestPhaseInProgress
	request.Status.Errors = nil // it does not wait any more
	if err := r.Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("set the request's phase to InProgress: %w", err)
	}
	return nil
}

// delete deletes everything that belongs to a Deleting backup, and the backup last, so that another attempt finds what
// it needs.
func (r *Controller) delete(
	ctx context.Context, record *audit, location *velerov1.BackupStorageLocation, log hclog.Logger,
) error {
	backup := record.backup
	// The restores are deleted first, because their files are found through the backup.
	if err := r.deleteRestores(ctx, record); err != nil {
		return err
	}
	if location != nil {
		if err := r.deleteStored(ctx, record, location, log); err != nil {
			return err
		}
	}
	err := r.Delete(ctx, backup, client.Preconditions{UID: &backup.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the Backup: %w", err)
	}
	return nil
}

// deleteStored deletes the files of the backup, unless they belong to another one.
func (r *Controller) deleteStored(
	ctx context.Context, record *audit, location *velerov1.BackupStorageLocation, log hclog.Logger,
) error {
	backup := record.backup
	objects, err := run.PatientStores{Stores: r.Stores, For: r.StoreOutage, Log: log}.Open(ctx, location)
	if err != nil {
		return err
	}
	stored := new(velerov1.Backup) // without a phase if there is none
	metadata, err := objects.BackupMetadata(ctx, backup.Name)
	switch {
	case errors.Is(err, store.ErrNotFound): // there may be other files
	case err != nil:
		return err
	default:
		if stored, err = decodeStored(backup.Name, metadata); err != nil {
			return err
		}
		if !owns(backup, stored) {
			record.foreign = true
			log.Warn("the object storage holds another backup of that name, which stays")
			return nil
		}
		if expires := stored.Status.Expiration; stored.UID != backup.UID &&
			record.request.Annotations[velerov1.ExpiredAnnotation] != "" && expires != nil && expires.After(r.Now()) {
			return refusal(fmt.Sprintf("the backup in object storage, of which this is a copy, expires at %s",
				expires.UTC().Format(time.RFC3339)))
		}
	}
	proof := proofOf(record.request, backup, stored)
	err = deletion.Merge(
		r.callPlugins(ctx, record, objects, proof, log), r.deleteSnapshots(ctx, record, objects, proof, log),
		r.forgetVolumes(ctx, record, objects, mayHaveLoads(stored), proof, log),
	)
	if err == nil && len(record.kept) > 0 && !proof.keep {
		if decided, err := r.decide(ctx, backup); err != nil || !decided {
			return errors.Join(err, undecided(backup, record.kept))
		}
		record.kept = nil
		return r.deleteStored(ctx, record, location, log)
	}
	if err != nil {
		return err
	}
	r.reportKept(record, log)
	return objects.DeleteBackup(ctx, backup.Name)
}

// decide reports whether a user has decided what becomes of what is not proven, and the cache did not have that yet.
func (r *Controller) decide(ctx context.Context, backup *velerov1.Backup) (bool, error) {
	var now velerov1.Backup
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(backup), &now); err != nil {
		return false, err
	}
	choice := now.Annotations[velerov1.DeleteSnapshotsAnnotation]
	if choice == backup.Annotations[velerov1.DeleteSnapshotsAnnotation] || choice != "true" && choice != "false" {
		return false, nil
	}
	metav1.SetMetaDataAnnotation(&backup.ObjectMeta, velerov1.DeleteSnapshotsAnnotation, choice)
	return true, nil
}

// reportKept tells people what the files of the backup, which are about to be deleted, name outside of the bucket and
// what stays.
func (r *Controller) reportKept(record *audit, log hclog.Logger) {
	if len(record.kept) == 0 {
		return
	}
	text := fmt.Sprintf("kept %s: %s; delete by hand what is of no use", describeHeld(record.kept), howToDecide)
	log.Warn(text, "backup", record.backup.Name)
	if r.Events != nil {
		r.Events.Eventf(record.backup, record.request, corev1.EventTypeWarning, "SnapshotsKept", "Deletion", "%s",
			shorten.Text(text, maxReason))
	}
}

// callPlugins has plugins remove what they stored for the items of the backup.
func (r *Controller) callPlugins(
	ctx context.Context, record *audit, objects *store.Store, proof proof, log hclog.Logger,
) error {
	backup, digest := record.backup, ""
	session := r.Plugins.Session(string(backup.UID), log)
	defer session.Close()
	session.WarnOfAbsent(kinds.DeleteItemAction().Name)
	return r.Engine(session.Trace(ctx, "Backup", backup.Namespace+"/"+backup.Name), deletion.Request{
		Backup:  backup.DeepCopy(),
		Actions: pluginhost.All(session, kinds.DeleteItemAction()),
		Open: func(ctx context.Context) (*archive.Archive, error) {
			stream, err := objects.Hashed(ctx, velerov1.DownloadTargetKindBackupContents, backup.Name)
			if errors.Is(err, store.ErrNotFound) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			defer func() { _ = stream.Close() }() // only read from
			items, err := archive.Open(ctx, stream, r.SpoolDir, archive.DefaultLimits())
			if err != nil {
				return nil, err
			}
			if digest, err = stream.Digest(); err != nil {
				return nil, errors.Join(err, items.Close())
			}
			return items, nil
		},
		MayCall: func() bool { return proof.holds(velerov1.DownloadTargetKindBackupContents, digest) },
		Held: func(calls int, first string) {
			record.kept = append(record.kept, fmt.Sprintf("%s for which a DeleteItemAction of a plugin would delete something "+
				"(the first is %s)", layout.Count(calls, "item"), first))
		},
		Log: log,
	})
}

// deleteSnapshots has the plugins of VolumeSnapshotLocations delete the snapshots of the backup.
func (r *Controller) deleteSnapshots(
	ctx context.Context, record *audit, objects *store.Store, proof proof, log hclog.Logger,
) error {
	const kind = velerov1.DownloadTargetKindBackupVolumeSnapshots
	snapshots, digest, err := store.DecodeHashedList[[]*volumes.Snapshot](ctx, objects, kind, record.backup.Name)
	if err != nil {
		return fmt.Errorf("read which snapshots have to be deleted: %w", err)
	}
	if !proof.holds(kind, digest) {
		for _, s := range snapshots {
			if id := s.Status.ProviderSnapshotID; id != "" {
				record.kept = append(record.kept, fmt.Sprintf("snapshot %q of VolumeSnapshotLocation %q",
					shorten.Text(id, maxNamed), shorten.Text(s.Spec.Location, maxNamed)))
			}
		}
		return nil
	}
	record.addSnapshots(snapshots)
	return deletion.DeleteSnapshots(ctx, r.OpenSnapshotter(r.Snapshotters), snapshots, log)
}

// forgetVolumes removes the data of volumes from their repositories. loads reports whether there may be loads that the
// files do not have.
func (r *Controller) forgetVolumes(
	ctx context.Context, record *audit, objects *store.Store, loads bool, proof proof, log hclog.Logger,
) error {
	data, err := r.stored(ctx, record.backup, objects, loads, log)
	if err != nil {
		return fmt.Errorf("read the data of which volumes has to be removed from repositories: %w", err)
	}
	forgotten, kept, err := deletion.ForgetVolumes(ctx, r.Repositories, record.backup.Spec.StorageLocation, data,
		proof.required(), log)
	record.snapshots = append(record.snapshots, forgotten...)
	for _, name := range kept {
		record.kept = append(record.kept, "data "+shorten.Text(name, maxNamed))
	}
	return err
}

// stored returns the data of a backup's volumes in repositories. It is listed in the files in the bucket, which another
// cluster may have written, and in the loads in this cluster, which are all that a failed backup leaves.
func (r *Controller) stored(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, loads bool, log hclog.Logger,
) ([]deletion.Stored, error) {
	var inFiles []deletion.Stored
	for one, err := range store.PodVolumeBackups[velerov1.PodVolumeBackup](ctx, objects, b.Name) {
		if err != nil {
			return nil, err
		}
		inFiles = append(inFiles, deletion.StoredByPods([]velerov1.PodVolumeBackup{one})...)
	}
	infos, err := store.DecodeList[[]volumes.VolumeInfo](ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos,
		b.Name)
	if err != nil {
		return nil, err
	}
	inFiles = append(inFiles, deletion.StoredByMovements(infos)...)
	if !loads {
		return inFiles, nil
	}
	var here velerov1.PodVolumeBackupList
	var uploads velerov2alpha1.DataUploadList
	for _, list := range []client.ObjectList{&here, &uploads} {
		if err := r.Live.List(ctx, list, client.InNamespace(b.Namespace),
			client.MatchingLabels{velerov1.BackupUIDLabel: string(b.UID)}); err != nil {
			return nil, fmt.Errorf("list the loads of the backup: %w", err)
		}
	}
	// Whoever may create a load could otherwise have any snapshot removed.
	if here.Items, err = written(ctx, r.Keys, b, here.Items, log); err != nil {
		return nil, err
	}
	if uploads.Items, err = written(ctx, r.Keys, b, uploads.Items, log); err != nil {
		return nil, err
	}
	return slices.Concat(inFiles, deletion.StoredByPods(here.Items), deletion.StoredByUploads(uploads.Items)), nil
}

// written returns those of some loads that the backup has created and whose status node agents have written.
func written[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, keys *loadkey.Keys, b *velerov1.Backup, loads []T, log hclog.Logger) (proven []T, err error) {
	for i := range loads {
		load := P(&loads[i])
		switch ok, err := keys.Written(ctx, operation.OfBackup, b.UID, load); {
		case err != nil:
			return nil, err
		case ok:
			proven = append(proven, loads[i])
		default:
			log.Warn("what a load with the label of the backup says it has stored is left alone: it was not created by the "+
				"backup, or no node agent has written its status", "name", load.GetName())
		}
	}
	return proven, nil
}

// decodeStored returns the Backup of a velero-backup.json.
func decodeStored(name string, metadata []byte) (*velerov1.Backup, error) {
	stored := new(velerov1.Backup)
	if err := store.DecodeMetadata(metadata, stored); err != nil {
		return nil, fmt.Errorf("decode velero-backup.json of backup %s, want the JSON of a Backup: %w", name, err)
	}
	return stored, nil
}

// mayHaveLoads reports whether a stored backup may have loads in its cluster that its files do not have. One that has
// completed without operations has no DataUploads, and its files have all PodVolumeBackups.
func mayHaveLoads(stored *velerov1.Backup) bool {
	return stored.Status.Phase != velerov1.BackupPhaseCompleted || stored.Status.BackupItemOperationsAttempted > 0
}

// owns reports whether backup is the stored one, as its velero-backup.json has it: it has the same uid, or backup is a
// copy of it in another cluster, which has the same status and was not created before the start. Times are seconds, so
// that a backup of the same name that started in the same second differs only by its failureReason: it found the name
// taken.
func owns(backup, stored *velerov1.Backup) bool {
	if stored.UID == backup.UID {
		return true
	}
	have, want := &backup.Status, &stored.Status
	return have.StartTimestamp != nil && have.StartTimestamp.Equal(want.StartTimestamp) &&
		have.CompletionTimestamp.Equal(want.CompletionTimestamp) && have.FailureReason == want.FailureReason &&
		!backup.CreationTimestamp.Before(have.StartTimestamp)
}

// deleteRestores deletes the restores of a backup and waits for the end of their finalizers.
func (r *Controller) deleteRestores(ctx context.Context, record *audit) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitForRestores+r.StoreOutage,
		errors.New("deleting its restores took too long"))
	defer cancel()
	ticker := time.NewTicker(restoresPoll)
	defer ticker.Stop()
	for {
		restores, err := r.restoresOf(ctx, record.backup)
		if err != nil {
			return err
		}
		var left []string
		for i := range restores {
			restore := &restores[i]
			left = append(left, restore.Name)
			record.restore(restore.Name)
			if restore.DeletionTimestamp != nil {
				continue
			}
			if err := r.Delete(ctx, restore); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete restore %s: %w", restore.Name, err)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("delete restores %v: %w", left, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// process ends a request with the reason why the backup was not deleted.
func (r *Controller) process(ctx context.Context, request *velerov1.DeleteBackupRequest, reason error) error {
	before := request.DeepCopy()
	request.Status.Phase = velerov1.DeleteBackupRequestPhaseProcessed
	request.Status.Errors = []string{reason.Error()}
	if failures, ok := errors.AsType[*deletion.Failures](reason); ok {
		request.Status.Errors = failures.Messages()
	}
	err := r.Patch(ctx, request, client.MergeFrom(before))
	return client.IgnoreNotFound(err)
}

// removeRequests deletes the requests to delete the same backup except for keep.
func (r *Controller) removeRequests(ctx context.Context, request, keep *velerov1.DeleteBackupRequest) error {
	var list velerov1.DeleteBackupRequestList
	if err := r.List(ctx, &list, client.InNamespace(request.Namespace)); err != nil {
		return fmt.Errorf("list the requests to delete the backup: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.BackupName != request.Spec.BackupName || keep != nil && other.UID == keep.UID {
			continue
		}
		if err := r.Delete(ctx, other); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete request %s: %w", other.Name, err)
		}
	}
	return nil
}
