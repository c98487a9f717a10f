package console

import (
	"context"
	"slices"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/restore"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
)

func restoresPage() console.Page {
	return console.Page{Path: "/restores", Nav: "Restores", Title: "Restores", Template: "restores.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			restores, err := console.List[*velerov1.Restore](l, restoreKind)
			slices.SortFunc(restores, func(a, b *velerov1.Restore) int { // the newest first
				return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
			})
			doc, err := newList(l, restores, func(r *velerov1.Restore) string { return status.RestoreRun(r).Phase }, err)
			if err == nil {
				doc.Table = status.RestoreTable(values(doc.Items), l.Now)
			}
			return doc, err
		}}
}

func restorePage() console.Page {
	return console.Page{Path: "/restores/{name}", Title: "Restore {name}", Template: "run.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			cluster := clusterOf(l)
			var r velerov1.Restore
			if err := get(ctx, cluster, "restore", l.Request.PathValue("name"), &r); err != nil {
				return nil, err
			}
			console.Watch(l, restoreKind)
			run := status.RestoreRun(&r)
			description, complete := console.Ask(l, describeKey(&r, run), describeAgain(l, run),
				func(ctx context.Context) *status.RestoreDescription {
					return restore.Describe(ctx, cluster, r.DeepCopy(), runs.NewFiles(cluster, answerWithin))
				})
			if !complete {
				description = &status.RestoreDescription{}
			}
			shown := *description // the parts that need the server or the bucket are older than the Restore
			shown.Restore, shown.Details = &r, true
			doc := newRunDocument(l, run, shown.Document(), shown.Results, shown.Operations, complete)
			doc.Started, doc.Completed = r.Status.StartTimestamp, r.Status.CompletionTimestamp
			doc.follow(l, &r, shown.PodVolumes, shown.Movements)
			doc.Problems = shown.Problems
			var err error
			doc.Text, err = printed(shown.Print)
			return doc, err
		}}
}

func restoreLogPage() console.Page {
	return console.Page{Path: "/restores/{name}/log", Title: "Log of restore {name}", Template: "log.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			cluster := clusterOf(l)
			var r velerov1.Restore
			if err := get(ctx, cluster, "restore", l.Request.PathValue("name"), &r); err != nil {
				return nil, err
			}
			location, _ := cluster.LocationOf(ctx, r.Spec.BackupName) // a file that cannot be found says so
			console.Watch(l, restoreKind)
			return readLog(ctx, l, logOf{&r, status.RestoreRun(&r), runs.Since(&r, r.Status.StartTimestamp),
				velerov1.DownloadTargetKindRestoreLog, location})
		}}
}

func cancelRestorePage() console.Page {
	return cancelPage("restores", "restore", newRestore)
}

func deleteRestorePage() console.Page {
	return deletePage("restores", "restore", func() object { return &velerov1.Restore{} },
		"its log and its other files are deleted. What it has restored stays.")
}
