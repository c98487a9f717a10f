package controller

import (
	"context"
	"io"

	"github.com/cleat-dev/cleat/server/backup"
	"github.com/cleat-dev/cleat/server/restore"
)

// BackupEngine collects what a backup selects and writes the archive. An error is fatal; what went
// wrong with single items is in the result.
type BackupEngine func(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error)

// RestoreEngine restores from an archive. An error is fatal, and the result tells what was done
// until then; what went wrong with single items is in the result only.
type RestoreEngine func(ctx context.Context, req restore.Request) (*restore.Result, error)
