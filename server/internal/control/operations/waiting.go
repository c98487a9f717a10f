package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

const (
	// writePause is the shortest time between two writes about the same backup or restore, except for the last one.
	writePause = time.Second

	// progressPause is the shortest time between two writes while operations make progress and none ends.
	progressPause = 30 * time.Second
)

// Common has the common parts of the controllers of backups and restores that wait for operations.
type Common struct {
	*run.Cluster
	Stores   run.Stores
	Monitor  *operation.Monitor
	Journals *operation.Journals
	Events   events.EventRecorder // nil for none
	Metrics  *metrics.Metrics
	Logs     *run.Logs
	SpoolDir string // for temporary files; empty means the directory of the system
	// StoreOutage is how long the end of a backup or restore waits for an object store that answers but refuses its
	// files.
	StoreOutage time.Duration
	Log         hclog.Logger
	Now         func() time.Time

	mu      sync.Mutex
	written map[types.UID]written
}

// written records the last write about a backup or restore.
type written struct {
	at       time.Time
	counts   operation.Counts
	revision operation.Revision // of the group
}

// files are the stored files of a backup or restore that describe its operations.
type files struct {
	objects                   *store.Store
	name                      string
	operations, results       velerov1.DownloadTargetKind
	putOperations, putResults func(ctx context.Context, name string, content io.ReadSeeker) error
	appendLog                 func(ctx context.Context, name, dir string, lines io.ReadSeeker) error
	// commit stores what was put and appended, if that is drafted until then; it may be nil
	commit func(ctx context.Context) error
	// removes the files that were stored after the backup or restore was deleted
	remove func(ctx context.Context) error
}

// waiting is a backup or restore that waits for operations.
type waiting struct {
	object  client.Object
	owner   *operation.Owner
	timeout time.Duration
	files   files
	counted operation.Counts // in the status
	// unrecorded is set for a backup that another kind of server has run: it has no record of the namespaces of its
	// operations.
	unrecorded bool
}

// wait checks the operations and stores the changes. setCounts writes how many have ended; when all have ended, end
// moves the backup or restore on, with the number of errors.
func (c *Common) wait(
	ctx context.Context, w *waiting, setCounts func(context.Context, []operation.Operation) error,
	end func(ctx context.Context, all []operation.Operation, errs int) error,
) (ctrl.Result, error) {
	late := c.Logs.Late(w.owner.Kind, w.object)
	group, err := c.follow(ctx, w)
	if errors.Is(err, errUnknown) {
		c.trouble(w.object, "OperationsUnknown", err.Error())
		lost := c.addFailures(ctx, w, nil, err.Error())
		if lost == nil {
			lost = store.PutJSON(ctx, w.files.putOperations, w.files.name, operation.NewFile(w.owner, nil))
		}
		if lost == nil {
			lost = c.commit(ctx, w)
		}
		if lost != nil {
			return ctrl.Result{}, lost
		}
		return ctrl.Result{}, end(ctx, nil, 1)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	all, again, err := c.report(ctx, w, group, setCounts)
	open := operation.Count(all).Open() > 0
	if err == nil && open {
		due, err := c.storeLate(ctx, w, late)
		if again == 0 || due > 0 && due < again {
			again = due
		}
		return ctrl.Result{RequeueAfter: again}, err
	}
	if err == nil {
		err = c.addFailures(ctx, w, all)
	}
	if err == nil {
		err = c.commit(ctx, w)
	}
	if run.Superseded(err) || errors.Is(err, store.ErrStale) {
		return ctrl.Result{}, err
	}
	if err != nil {
		refused, noted := c.GiveUp(ctx, w.object, w.files.objects.Validate, err, c.StoreOutage, c.Now())
		if noted != nil || !refused || open {
			return ctrl.Result{}, errors.Join(err, noted)
		}
		text := fmt.Sprintf("what became of the operations is not stored: %v", err)
		c.trouble(w.object, "OperationsNotStored", text)
		c.Log.Error(text, w.owner.Kind, w.owner.Namespace+"/"+w.owner.Name)
		return ctrl.Result{}, end(ctx, all, len(failures(all))+1)
	}
	ended := operation.Count(all)
	late.Logger().Info("all operations have ended", "operations", ended.Attempted, "completed", ended.Completed, "failed",
		ended.Failed)
	return ctrl.Result{}, end(ctx, all, len(failures(all)))
}

// patient returns the stores for the files of a backup or restore.
func (c *Common) patient(object client.Object) run.Stores {
	return c.PatientAtEnd(c.Stores, object, c.StoreOutage, c.Log, c.Now)
}

// explain writes to the object why it could not be processed, or removes that.
func (c *Common) explain(ctx context.Context, object client.Object, err error) error {
	if err == nil {
		return c.Unnote(ctx, object)
	}
	return errors.Join(err, client.IgnoreNotFound(c.Note(ctx, object, "its operations to be looked after", err, c.Now())))
}

// follow adds the operations to the monitor in the first call, and cancels them if that is requested.
func (c *Common) follow(ctx context.Context, w *waiting) (*operation.Group, error) {
	group := c.Monitor.Group(w.owner.UID)
	if group == nil {
		all, err := c.load(ctx, w)
		if err != nil {
			return nil, err
		}
		group = c.Monitor.Follow(w.owner, all, w.timeout)
	}
	if velerov1.CancelRequested(w.object) {
		group.Cancel(run.ErrCancelled)
	}
	return group, nil
}

// errUnknown means that there is no record of the operations that a backup or restore waits for.
var errUnknown = errors.New("the record of its asynchronous operations is lost")

// load returns the operations of a backup or restore from its file. If the file is missing or damaged, load returns
// the operations in the journal. Operations that another kind of server has started get a journal. The error is
// errUnknown if there is neither.
func (c *Common) load(ctx context.Context, w *waiting) ([]operation.Operation, error) {
	journal, err := c.Journals.Load(ctx, w.owner.UID)
	if err != nil {
		return nil, err
	}
	file, err := store.DecodeList[operation.File](ctx, w.files.objects, w.files.operations, w.files.name)
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		return nil, err
	}
	all, invalid := file.Operations(w.owner)
	if err == nil {
		err = invalid
	}
	if err == nil && len(all) < w.counted.Attempted {
		err = fmt.Errorf("it has %d operations, want the %d in the status", len(all), w.counted.Attempted)
	}
	if want := w.object.GetAnnotations()[velerov1.OperationsAnnotation]; err == nil && want != "" &&
		want != operation.Digest(all) {
		all, err = nil, errors.New("it was not written to the bucket by the server")
	}
	if err != nil {
		c.Log.Error("the file of the operations cannot be used as it is", w.owner.Kind, w.owner.Name, "error", err, "journal",
			journal != nil)
		if journal == nil {
			return nil, fmt.Errorf("%w: %w", errUnknown, err)
		}
		for _, start := range beyond(all, journal.Starts()) {
			if !start.InDoubt() {
				all = append(all, start.Operation(c.Now()))
			}
		}
		return all, nil
	}
	if journal == nil {
		return all, c.adopt(ctx, w.owner, all)
	}
	return all, nil
}

// beyond returns the starts whose operations are not in all. A start in doubt counts as known if all has an operation
// of its action for its item.
func beyond(all []operation.Operation, starts []operation.Recorded) []operation.Recorded {
	type key struct{ action, item, id string }
	known := map[key]bool{}
	for i := range all {
		o := &all[i]
		known[key{o.Action, o.Item.String(), o.ID}] = true
		known[key{o.Action, o.Item.String(), ""}] = true
	}
	return slices.DeleteFunc(starts,
		func(r operation.Recorded) bool { return known[key{r.Action, r.Item.String(), r.ID}] })
}

// adopters is how many operations are recorded at once; they share writes.
const adopters = 64

// adopt records the open operations that another kind of server has started, so that they are found if their owner is
// deleted.
func (c *Common) adopt(ctx context.Context, owner *operation.Owner, all []operation.Operation) error {
	journal := c.Journals.New(owner)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(adopters)
	for i := range all {
		if o := &all[i]; !o.Phase.Ended() {
			group.Go(func() error { return journal.Started(ctx, operation.Start{Action: o.Action, Item: o.Item}, o.ID) })
		}
	}
	return group.Wait()
}

// report stores the changes since the last call, if the pauses allow it: the file of the operations, and by setCounts
// the status. It returns the current operations, and the time until the next call, or 0 if only an event leads to it. If
// all have ended, the caller commits the file with what else is stored then.
func (c *Common) report(
	ctx context.Context, w *waiting, group *operation.Group, setCounts func(context.Context, []operation.Operation) error,
) ([]operation.Operation, time.Duration, error) {
	all, revision := group.Operations()
	now, counted := c.Now(), operation.Count(all)
	last := c.last(w.owner.UID)
	due := last.at.Add(progressPause)
	switch {
	case counted.Open() == 0:
		due = now
	case counted != last.counts:
		due = last.at.Add(writePause)
	case revision == last.revision:
		return all, 0, nil
	}
	if wait := due.Sub(now); wait > 0 {
		return all, wait, nil
	}
	err := store.PutJSON(ctx, w.files.putOperations, w.files.name, operation.NewFile(w.owner, all))
	if err == nil && counted.Open() > 0 {
		if counted != w.counted || w.unrecorded {
			err = setCounts(ctx, all)
		}
		if err == nil {
			err = c.commit(ctx, w)
		}
	}
	if err != nil {
		return all, 0, err
	}
	c.remember(w.owner.UID, written{at: now, counts: counted, revision: revision})
	return all, 0, nil
}

func (c *Common) last(uid types.UID) written {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written[uid]
}

func (c *Common) remember(uid types.UID, done written) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written = map[types.UID]written{}
	}
	c.written[uid] = done
}

// forget drops the records of a backup or restore that no longer waits.
func (c *Common) forget(uid types.UID) {
	c.Monitor.Forget(uid)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, uid)
}

// addFailures adds the errors of failed operations, and more, to the results of the run. It adds none twice, so that
// it can be repeated.
func (c *Common) addFailures(ctx context.Context, w *waiting, all []operation.Operation, more ...string) error {
	if len(failures(all)) == 0 && len(more) == 0 {
		return nil
	}
	found, err := store.DecodeJSON[results.Results](ctx, w.files.objects, w.files.results, w.files.name)
	if errors.Is(err, store.ErrDamaged) {
		c.Log.Error("the results of the run are damaged, and replaced by the errors of its operations", w.owner.Kind,
			w.owner.Name, "error", err)
	} else if err != nil {
		return err
	}
	var failed results.Result
	for _, o := range failures(all) {
		message := results.Message{Resource: o.Item.GroupResource(), Name: o.Item.Name,
			Text: fmt.Sprintf("operation %s of %s failed", o.ID, o.Action), Err: errors.New(o.Error)}
		failed.Add(o.Item.Namespace, message.String())
	}
	for _, text := range more {
		failed.AddVelero(text)
	}
	found.Errors.MergeNew(failed)
	return store.PutJSON(ctx, w.files.putResults, w.files.name, found)
}

// commit is called after files were put. The other files may be deleted with the custom resource meanwhile: then commit
// removes these files again and returns run.ErrNotFound.
func (c *Common) commit(ctx context.Context, w *waiting) error {
	if w.files.commit != nil {
		if err := w.files.commit(ctx); err != nil {
			return err
		}
	}
	return c.mustExist(ctx, w)
}

// storeLate adds the lines that were logged since the log was stored, if that is due, and returns the time until the
// next call, or 0 if no line waits. If the server is killed before, these lines are in its own log only.
func (c *Common) storeLate(ctx context.Context, w *waiting, late *runlog.Late) (again time.Duration, err error) {
	due := late.Due()
	switch wait := due.Sub(c.Now()); {
	case due.IsZero():
		return 0, nil
	case wait > 0:
		return wait, nil
	}
	err = run.StoreLate(ctx, late, w.files.name, c.SpoolDir,
		func(ctx context.Context, name, dir string, lines io.ReadSeeker) error {
			if err := w.files.appendLog(ctx, name, dir, lines); err != nil || w.files.commit == nil {
				return err
			}
			return w.files.commit(ctx)
		})
	if err != nil {
		c.Log.Warn("could not add lines to the stored log, trying again", w.owner.Kind, w.owner.Namespace+"/"+w.owner.Name,
			"error", err)
		return max(time.Second, late.Due().Sub(c.Now())), nil
	}
	return 0, c.mustExist(ctx, w)
}

// mustExist is called after files were stored. If the other files were deleted meanwhile, it removes them and returns
// run.ErrNotFound.
func (c *Common) mustExist(ctx context.Context, w *waiting) error {
	switch deleted, err := c.isDeleted(ctx, w); {
	case err != nil:
		return fmt.Errorf("look whether the %s still exists: %w", w.owner.Kind, err)
	case !deleted:
		return nil
	}
	if err := w.files.remove(ctx); err != nil {
		return fmt.Errorf("remove the files of a deleted %s: %w", w.owner.Kind, err)
	}
	return run.ErrNotFound
}

// isDeleted reports whether the files of a backup or restore are being deleted, or were. The files of a restore are
// deleted while its finalizer still exists.
func (c *Common) isDeleted(ctx context.Context, w *waiting) (bool, error) {
	now, ok := w.object.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("%T is not an object", w.object)
	}
	switch err := c.Live.Get(ctx, client.ObjectKeyFromObject(w.object), now); {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	}
	same := now.GetUID() == w.owner.UID
	if w.owner.Kind == operation.OfRestore {
		return same && now.GetDeletionTimestamp() != nil, nil // another object of that name keeps its files
	}
	return !same, nil
}

func failures(all []operation.Operation) []*operation.Operation {
	var failed []*operation.Operation
	for i := range all {
		if all[i].Phase == operation.Failed {
			failed = append(failed, &all[i])
		}
	}
	return failed
}

// Notice records an event for the backup or restore of an operation.
func (c *Common) Notice(notice operation.Notice) {
	owner := notice.Owner
	meta := metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID}
	if owner.Kind == operation.OfRestore {
		c.trouble(&velerov1.Restore{ObjectMeta: meta}, notice.Reason, notice.Text)
	} else {
		c.trouble(&velerov1.Backup{ObjectMeta: meta}, notice.Reason, notice.Text)
	}
}

// trouble records a warning event for the backup or restore.
func (c *Common) trouble(object client.Object, reason, text string) {
	run.Warn(c.Events, object, reason, "Wait", text)
}
