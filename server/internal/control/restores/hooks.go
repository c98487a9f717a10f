package restores

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

// beginHooks returns the hooks of the restore, nil for a dry run.
func (w *work) beginHooks() (*hook.Restore, error) {
	if w.dryRun != nil {
		return nil, nil
	}
	hooks, err := w.Hooks.Begin(w.object,
		func() (*runlog.Log, error) { return w.LogOptions.Open("restore", w.object.DeepCopy(), w.Log, w.Now) })
	if err != nil {
		return nil, fmt.Errorf("spec.hooks: %w", err)
	}
	return hooks, nil
}

// abortHooks ends the hooks of a restore that has failed. It adds what became of them to the result and to the stored
// files.
func (w *work) abortHooks(why error) hook.Outcome {
	hooks := w.Hooks.Of(w.object.UID)
	if hooks == nil {
		return hook.Outcome{}
	}
	return hooks.Abort(why)
}

// forgetHooks ends the hooks of a restore that is left to another server, is deleted, or has ended.
func forgetHooks(all *hook.Restores, restore *velerov1.Restore, log hclog.Logger) {
	if err := all.Forget(restore.UID); err != nil {
		log.Warn("could not remove the temporary file of the log of hooks", "error", err)
	}
}

// hooksOf returns the hooks of a restore whose run has ended, nil if there are none. It goes on with those that a
// former server has left.
func (r *Finalizer) hooksOf(ctx context.Context, restore *velerov1.Restore) (*hook.Restore, error) {
	hooks := r.Hooks.Of(restore.UID)
	if counts := restore.Status.HookStatus; hooks == nil && counts != nil && counts.HooksAttempted > 0 {
		var err error
		hooks, err = r.Hooks.Resume(ctx, restore,
			func() (*runlog.Log, error) { return r.LogOptions.Open("restore", restore.DeepCopy(), r.Log, r.Now) })
		if err != nil {
			return nil, fmt.Errorf("go on with the hooks of the restore: %w", err)
		}
	}
	if hooks != nil && velerov1.CancelRequested(restore) {
		hooks.Cancel(run.ErrCancelled)
	}
	return hooks, nil
}

// storeHooks adds what became of hooks to the stored results and to the stored log, where people look for it. It can be
// repeated.
func (r *Finalizer) storeHooks(
	ctx context.Context, restore *velerov1.Restore, hooks *hook.Restore, outcome hook.Outcome, log hclog.Logger,
) error {
	if outcome.Log == nil && outcome.Errors.Count() == 0 {
		return nil // or stored before
	}
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return err
	}
	if outcome.Errors.Count() > 0 {
		more := results.Results{Errors: outcome.Errors}
		if err := addResults(ctx, objects, restore.Name, more, log); err != nil {
			return err
		}
	}
	if err := appendLog(ctx, objects, restore.Name, r.LogOptions.Dir, outcome.Log); err != nil {
		return err
	}
	return hooks.CloseLog() // so that it is added once
}

// addResults adds errors and warnings to the stored results of a restore, unless they have them.
func addResults(
	ctx context.Context, objects *store.Store, name string, more results.Results, log hclog.Logger,
) error {
	found, err := store.DecodeJSON[results.Results](ctx, objects, velerov1.DownloadTargetKindRestoreResults, name)
	if errors.Is(err, store.ErrDamaged) {
		log.Error("the results of the restore are damaged, and replaced by the errors of its end", "error", err)
	} else if err != nil {
		return err
	}
	found.Errors.MergeNew(more.Errors)
	found.Warnings.MergeNew(more.Warnings)
	return store.PutJSON(ctx, objects.PutRestoreResults, name, found)
}

// appendLog adds the log of hooks to the stored log of a restore.
func appendLog(ctx context.Context, objects *store.Store, name, dir string, log *runlog.Log) error {
	if log == nil {
		return nil
	}
	more, err := log.Reader()
	if err != nil {
		return err
	}
	return objects.AppendRestoreLog(ctx, name, dir, more)
}
