package deletions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// deleteStored deletes the files of the backup, unless they belong to another one.
func (r *Controller) deleteStored(
	ctx context.Context, record *audit, location *velerov1.BackupStorageLocation, log hclog.Logger,
) error {
	backup := record.backup
	opened, err := run.PatientStores{Stores: r.Stores, For: r.StoreOutage, Log: log}.Open(ctx, location)
	if err != nil {
		return err
	}
	objects := opened.Of(backup)
	stored := new(velerov1.Backup) // without a phase if there is none
	metadata, err := objects.BackupMetadata(ctx, backup.Name)
	if err == nil {
		stored, err = decodeStored(backup.Name, metadata)
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // there may be other files
	case errors.Is(err, store.ErrDamaged):
		if err := r.claimDamaged(ctx, record, objects, err); err != nil {
			return err
		}
		stored = new(velerov1.Backup)
	case err != nil:
		return err
	case !run.Owns(backup, stored):
		record.foreign = true
		log.Warn("the object storage holds another backup of that name, which stays")
		return nil
	}
	if expires := stored.Status.Expiration; stored.UID != "" && stored.UID != backup.UID &&
		record.request.Annotations[velerov1.ExpiredAnnotation] != "" && expires != nil && expires.After(r.Now()) {
		return refusal(fmt.Sprintf("the backup in object storage, of which this is a copy, expires at %s",
			expires.UTC().Format(time.RFC3339)))
	}
	if mayKeep(location) {
		if err := r.checkKept(ctx, objects, backup); err != nil {
			return err
		}
	}
	proof := proofOf(record.request, backup, stored)
	failed := r.callPlugins(ctx, record, objects, proof, log)
	removed, err := r.Volumes.Remove(ctx, volumes.Removal{
		Backup: backup, Objects: objects, Loads: mayHaveLoads(stored), Proof: proof,
	}, log)
	record.snapshots = append(record.snapshots, removed.Snapshots...)
	record.kept = append(record.kept, removed.Kept...)
	record.unread = append(record.unread, removed.Unread...)
	err = deletion.Merge(removed.Failed, failed, err)
	if err == nil && len(record.kept) > 0 && !proof.keep {
		if decided, err := r.decide(ctx, backup); err != nil || !decided {
			return errors.Join(err, undecided(backup, record.kept))
		}
		record.kept, record.unread = nil, nil
		return r.deleteStored(ctx, record, location, log)
	}
	if err != nil {
		return err
	}
	r.reportKept(record, log)
	if record.foreign {
		return nil
	}
	return opened.DeleteBackup(ctx, backup.Name)
}

// claimDamaged decides whether the files of a backup are its own if its velero-backup.json is damaged: the digest of one
// of them must be that which the cluster has noted, or the request must be forced. Otherwise they stay.
func (r *Controller) claimDamaged(
	ctx context.Context, record *audit, objects *store.Store, damage error,
) error {
	backup := record.backup
	record.unread = append(record.unread, shorten.Text(damage.Error(), maxReason))
	if record.request.Annotations[velerov1.ForceAnnotation] == "true" {
		return nil
	}
	files, err := objects.FilesOf(ctx, backup.Name)
	if err != nil {
		return err
	}
	noted := store.Noted(backup)
	for _, name := range files {
		known := slices.ContainsFunc(noted, func(t store.Tally) bool { return t[name].SHA256 != "" })
		if !known || name == store.MetadataFile {
			continue
		}
		found, err := objects.SumOf(ctx, backup.Name, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case slices.ContainsFunc(noted, func(t store.Tally) bool { return t[name].SHA256 == found.SHA256 }):
			return nil
		}
	}
	record.foreign = true
	record.unread = append(record.unread, fmt.Sprintf("the files below backups/%s/ stay in the bucket of the location, "+
		"because nothing proves that they belong to the backup: %s; delete them by hand if they do (\"cleat backup delete "+
		"--force\" would have)", backup.Name, describeHeld(files)))
	return nil
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
			items, err := archive.Open(ctx, stream, r.SpoolDir, archive.Options{})
			if archive.IsDamage(err) {
				record.unread = append(record.unread, shorten.Text("the archive, for whose items no DeleteItemAction was "+
					"called: "+err.Error(), maxReason))
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			if digest, err = stream.Digest(); err != nil {
				return nil, errors.Join(err, items.Close())
			}
			return items, nil
		},
		MayCall: func() bool { return proof.Holds(velerov1.DownloadTargetKindBackupContents, digest) },
		Held: func(calls int, first string) {
			record.kept = append(record.kept, fmt.Sprintf("%s for which a DeleteItemAction of a plugin would delete something "+
				"(the first is %s)", layout.Count(calls, "item"), first))
		},
		Log: log,
	})
}

// decodeStored returns the Backup of a velero-backup.json.
func decodeStored(name string, metadata []byte) (*velerov1.Backup, error) {
	stored := new(velerov1.Backup)
	if err := store.DecodeMetadata(metadata, stored); err != nil {
		return stored, fmt.Errorf("decode velero-backup.json of backup %s, want the JSON of a Backup: %w", name, err)
	}
	return stored, nil
}

// mayHaveLoads reports whether a stored backup may have loads in its cluster that its files do not have. One that has
// completed without operations has no DataUploads, and its files have all PodVolumeBackups.
func mayHaveLoads(stored *velerov1.Backup) bool {
	return stored.Status.Phase != velerov1.BackupPhaseCompleted || stored.Status.BackupItemOperationsAttempted > 0
}
