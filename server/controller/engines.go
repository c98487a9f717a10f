package controller

import (
	"context"
	"io"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/backup"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

type RestoreRequest struct {
	Restore  *velerov1.Restore
	Backup   *velerov1.Backup
	Archive  *archive.Archive
	Actions  []restoreitemaction.Action
	Log      hclog.Logger
	Progress func(done, total int)
}
type RestoreResult struct {
	Items        int
	ResourceList map[string][]string
	Results      results.Results
}

// BackupEngine collects what a backup selects and writes the archive. An error is fatal; what went
// wrong with single items is in the result.
type BackupEngine func(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error)

// RestoreEngine restores from an archive.
type RestoreEngine func(ctx context.Context, req RestoreRequest) (*RestoreResult, error)

// Session is the view of the plugins that a running operation has.
type Session interface {
	BackupItemActions() []backupitemaction.Action
	RestoreItemActions() []restoreitemaction.Action
	Close()
}

// Plugins makes sessions.
type Plugins interface {
	Session(log hclog.Logger) Session
}
