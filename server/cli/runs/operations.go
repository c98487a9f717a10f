package runs

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/report/operationreport"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// StoredOperations returns the operations of a run as the server has stored them last. During the run, only their
// number is stored, in its status. location is the location of its files.
func (d *Downloads) StoredOperations(
	ctx context.Context, cluster *command.Cluster, run status.Run, uid types.UID, location string,
) serverreport.OperationsOf {
	kind, target := operation.OfBackup, velerov1.DownloadTargetKindBackupItemOperations
	if run.Kind == "restore" {
		kind, target = operation.OfRestore, velerov1.DownloadTargetKindRestoreItemOperations
	}
	var file operation.File
	err := fmt.Errorf("the %s is in progress: until its files are stored, only the server shows each operation", run.Kind)
	if !run.Starts() {
		file, err = fetch[operation.File](ctx, d, cluster, target, run.Name, location)
	}
	if err != nil {
		of := serverreport.OperationsOf{Kind: kind, Name: run.Name, UID: uid, Problem: err.Error(), Summary: run.Operations}
		of.Silent = of.Open
		return of
	}
	// a Backup may have been made anew from the bucket
	of := operationreport.OfFile(&operation.Owner{Kind: kind, Name: run.Name}, file)
	of.UID = uid
	return of
}

// LoadOperations returns the operations of a run, if details are requested and there are any: the operations that the
// server follows now, or the stored ones. A failed run has none. Missing parts are added to problems.
func (f Files) LoadOperations(
	ctx context.Context, run status.Run, uid types.UID, location string,
) (report *serverreport.Operations, problems []string) {
	if !f.details || run.Operations.Attempted() == 0 {
		return nil, nil
	}
	if run.Waits() || run.Starts() || run.Failed() && run.Operations.Open > 0 {
		live, err := f.cluster.Operations(ctx, f.downloads.timeout, serverreport.OwnerKey(run.Kind, run.Name))
		if err == nil {
			if report = live.Only(run.Title(), uid); len(report.Owners) > 0 {
				return report, nil
			}
		} else {
			problems = append(problems, fmt.Sprintf("how far the operations are now, beyond what is stored: %v", err))
		}
	}
	if run.Failed() {
		return nil, problems
	}
	stored := f.downloads.StoredOperations(ctx, f.cluster, run, uid, location)
	if stored.Problem != "" {
		problems = append(problems, stored.Problem)
	}
	return serverreport.NewOperations(time.Now(), []serverreport.OperationsOf{stored}), problems
}
