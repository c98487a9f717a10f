package console

import (
	"context"
	"slices"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/backup"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
)

func backupsPage() console.Page {
	return console.Page{Path: "/backups", Nav: "Backups", Title: "Backups", Template: "backups.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			backups, err := console.List[*velerov1.Backup](l, backupKind)
			slices.SortFunc(backups, func(a, b *velerov1.Backup) int { // the newest first
				return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
			})
			doc, err := newList(l, backups, func(b *velerov1.Backup) string { return status.BackupRun(b).Phase }, err)
			if err == nil {
				doc.Table = status.BackupTable(values(doc.Items), l.Now)
			}
			return doc, err
		}}
}

func backupPage() console.Page {
	return console.Page{Path: "/backups/{name}", Title: "Backup {name}", Template: "run.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			cluster, name := clusterOf(l), l.Request.PathValue("name")
			var b velerov1.Backup
			if err := get(ctx, cluster, "backup", name, &b); err != nil {
				return nil, err
			}
			console.Watch(l, backupKind)
			run := status.BackupRun(&b)
			description, complete := console.Ask(l, describeKey(&b, run), describeAgain(l, run),
				func(ctx context.Context) *status.BackupDescription {
					copied := b.DeepCopy()
					return backup.Describe(ctx, cluster, copied, runs.NewFiles(cluster, answerWithin))
				})
			if !complete {
				description = status.NewBackupDescription(&b)
			}
			shown := *description // the parts that need the server or the bucket are older than the Backup
			shown.Backup, shown.Details = &b, true
			doc := newRunDocument(l, run, shown.Document(), shown.Results, shown.Operations, complete)
			doc.Started, doc.Completed = b.Status.StartTimestamp, b.Status.CompletionTimestamp
			doc.follow(l, &b, shown.PodVolumes, shown.Movements)
			doc.Problems = shown.Problems
			if b.Status.Phase == velerov1.BackupPhaseQueued {
				doc.Why = "/queue/" + name
			}
			if canRestore(&b) {
				doc.Restore = doc.Here + "/restore"
			}
			var err error
			doc.Text, err = printed(shown.Print)
			return doc, err
		}}
}

func backupLogPage() console.Page {
	return console.Page{Path: "/backups/{name}/log", Title: "Log of backup {name}", Template: "log.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			var b velerov1.Backup
			if err := get(ctx, clusterOf(l), "backup", l.Request.PathValue("name"), &b); err != nil {
				return nil, err
			}
			console.Watch(l, backupKind)
			return readLog(ctx, l, logOf{&b, status.BackupRun(&b), runs.Since(&b, b.Status.StartTimestamp),
				velerov1.DownloadTargetKindBackupLog, b.Spec.StorageLocation})
		}}
}

func cancelBackupPage() console.Page {
	return cancelPage("backups", "backup", newBackup)
}

func deleteBackupPage() console.Page {
	read := func(ctx context.Context, l *console.Look) (*velerov1.Backup, error) {
		var b velerov1.Backup
		err := get(ctx, clusterOf(l), "backup", l.Request.PathValue("name"), &b)
		return &b, err
	}
	return console.Page{Path: "/backups/{name}/delete", Title: "Delete backup {name}", Template: "confirm.html",
		Still: true,
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			b, err := read(ctx, l)
			if err != nil {
				return nil, err
			}
			restores, err := console.List[*velerov1.Restore](l, restoreKind)
			doc := &confirmation{Object: b.Name, UID: string(b.UID), Back: pathOf("backups", b.Name), Verb: "Delete",
				Command: "cleat backup delete " + b.Name, Problems: problems(err),
				Follows: "its files in the object storage, the snapshots and the data of volumes that belong to it, and the " +
					"restores that were made from it are deleted, and then the Backup itself. This cannot be taken back."}
			for _, r := range restores {
				if r.Spec.BackupName == b.Name {
					doc.Gone = append(doc.Gone, "restore "+r.Name)
				}
			}
			doc.Gone = append(doc.Gone, "backup "+b.Name+" with all its data")
			doc.refuse(l.May(ctx, "create", group, "deletebackuprequests", ""))
			return doc, nil
		},
		Act: func(ctx context.Context, l *console.Look) (string, error) {
			b, err := read(ctx, l)
			if err == nil {
				err = sameObject(l, b)
			}
			if err == nil {
				_, err = backup.RequestDeletion(ctx, clusterOf(l), b, false)
			}
			return pathOf("backups", l.Request.PathValue("name")), err
		}}
}

// describeAgain returns the age after which an open page asks again for what a run has done. A run that has ended does
// nothing more.
func describeAgain(l *console.Look, run status.Run) time.Duration {
	if run.Ended() {
		return time.Hour
	}
	l.Again(2 * time.Second)
	return time.Second
}

// describeKey returns the key of a question about a run. The answer about a run at work is none about one that has
// ended.
func describeKey(o object, run status.Run) string {
	key := run.Kind + "/" + string(o.GetUID())
	if run.Ended() {
		key += "/" + run.Phase
	}
	return key
}
