package framework

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

// Log returns the logger of the call that ctx belongs to. Its lines are written to the log of the backup or restore
// that made the call and to no other, however many run at once; those of Progress and Cancel are added to it later. (A
// host that does not name the run of a call, such as stock Velero, gets plain lines.) Contexts derived from that of a
// call have the same logger, also when the call has ended. With a context of no call, as in a unit test, the lines are
// written to the standard error.
func Log(ctx context.Context) hclog.Logger { return glue.Log(ctx) }

// Slog returns Log for code that uses log/slog.
func Slog(ctx context.Context) *slog.Logger { return glue.NewSlog(glue.Log(ctx)) }
