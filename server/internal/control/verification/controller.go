package verification

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/bucket/verify"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

const (
	// RequestWorkers is how many backups are verified at once because people ask for it.
	RequestWorkers = 2
	// slotPause is how long a verification that is due waits for another one that is at work.
	slotPause = 2 * time.Second
	// again is how long after a verification that has failed the next one begins.
	again = 10 * time.Minute
	// progressPause is how often the progress is written.
	progressPause = 2 * time.Second
	// keptFindings and keptNotes are how many of them an annotation has, with keptText bytes each.
	keptFindings, keptNotes, keptText = 50, 20, 400
)

// Settings are when backups are verified.
type Settings struct {
	After      bool          // each that has ended
	Every      time.Duration // 0 for never again
	Depth      velerov1.VerificationDepth
	Concurrent int
}

// Controller verifies backups. One that is at work when the server ends is begun again by the next one.
type Controller struct {
	*run.Cluster
	Stores       run.Stores
	Keys         *Keys
	Settings     Settings
	Repositories Repositories
	Events       events.EventRecorder
	Log          hclog.Logger
	Now          func() time.Time

	slots chan struct{} // of those that nobody has asked for
}

// Workers returns the number of requests that the controller handles at once.
func (r *Controller) Workers() int { return r.Settings.Concurrent + RequestWorkers }

// Setup makes a controller that reconciles a backup when it is read first, when its phase changes, and when somebody
// asks for its verification.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	r.slots = make(chan struct{}, r.Settings.Concurrent)
	return b.For(&velerov1.Backup{}, builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.concerns(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*velerov1.Backup)
			after, also := e.ObjectNew.(*velerov1.Backup)
			if !ok || !also {
				return false
			}
			return r.concerns(after) && (before.Status.Phase != after.Status.Phase ||
				before.Annotations[velerov1.VerifyAnnotation] != after.Annotations[velerov1.VerifyAnnotation])
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}))
}

// concerns reports whether there may be something to do for a backup. A cluster has thousands.
func (r *Controller) concerns(object client.Object) bool {
	annotations := object.GetAnnotations()
	_, asked := annotations[velerov1.VerifyAnnotation]
	return asked || annotations[velerov1.VerificationAnnotation] != "" || r.Settings.After || r.Settings.Every > 0
}

// Reconcile verifies a backup if that is due.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := new(velerov1.Backup)
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	due, wait := r.due(b)
	if due == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	// The cache may not have the end of the last one yet.
	if err := r.Live.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if due, wait = r.due(b); due == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if r.isAway(ctx, b, due) {
		return ctrl.Result{RequeueAfter: run.WaitDelay}, nil
	}
	if due.Request == "" {
		if vouched, err := r.isVouched(ctx, b); err != nil || !vouched {
			return ctrl.Result{RequeueAfter: r.Settings.Every}, err
		}
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		default:
			return ctrl.Result{RequeueAfter: slotPause + rand.N(slotPause)}, nil //nolint:gosec // spreads requests only
		}
	}
	if err := r.verify(ctx, b, due); err != nil && !run.Superseded(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Second}, nil // looks for the next one
}

// isVouched reports whether somebody vouches for the origin of a backup, so that it is verified without a request.
// Otherwise whoever can write to the bucket would decide how much the server reads.
func (r *Controller) isVouched(ctx context.Context, b *velerov1.Backup) (bool, error) {
	if _, ok := trust.MadeHere(b); ok {
		return true, nil
	}
	ring := r.Keys.Ring(ctx)
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) || len(ring) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	objects, err := r.Stores.Open(ctx, location)
	if err == nil {
		_, err = ring.Vouch(ctx, objects, b)
	}
	if errors.Is(err, trust.ErrUnknownOrigin) {
		r.Log.Debug("not verified without a request", "backup", b.Name, "because", err)
		return false, nil
	}
	return err == nil, err
}

// isAway reports whether a verification waits because the location of the backup is not available. One that somebody
// asks for waits only for the first validation.
func (r *Controller) isAway(ctx context.Context, b *velerov1.Backup, due *velerov1.VerificationRun) bool {
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	return err == nil && run.LocationProblem(location) != "" && (due.Request == "" || location.Status.Phase == "")
}

// due returns the verification of a backup that is to begin now, nil for none, and the time until the next one, 0 for
// never.
func (r *Controller) due(b *velerov1.Backup) (*velerov1.VerificationRun, time.Duration) {
	if b.DeletionTimestamp != nil || velerov1.IsDryRun(b) {
		return nil, 0
	}
	known, _ := velerov1.VerificationOf(b) // what nobody can decode is replaced
	if known == nil {
		known = &velerov1.Verification{}
	}
	started := metav1.NewTime(r.Now().Truncate(time.Second))
	phase := run.BackupPhase(b)
	ready := phase.Restorable()
	request, err := velerov1.VerifyRequestOf(b)
	if err != nil {
		request = &velerov1.VerifyRequest{}
	}
	switch {
	case request != nil && (ready || phase.Terminal()):
		depth := request.Depth
		if !slices.Contains(velerov1.VerificationDepths(), depth) {
			depth = r.Settings.Depth
		}
		return &velerov1.VerificationRun{Request: request.ID, Depth: depth, Started: started}, 0
	case !ready:
		return nil, 0
	case known.Running != nil && known.Running.Request == "": // of a server that was stopped
		return &velerov1.VerificationRun{Depth: known.Running.Depth, Started: started}, 0
	case b.Status.Expiration != nil && !b.Status.Expiration.After(r.Now()):
		return nil, 0
	}
	var at time.Time
	last := known.At(r.Settings.Depth)
	switch every := r.Settings.Every; {
	case last == nil && r.Settings.After:
	case last == nil && every > 0:
		at = b.CreationTimestamp.Time
		if b.Status.CompletionTimestamp != nil {
			at = b.Status.CompletionTimestamp.Time
		}
		at = at.Add(every)
	case last != nil && last.Outcome == velerov1.VerificationFailed && (r.Settings.After || every > 0):
		at = last.Ended.Add(again)
	case last != nil && every > 0:
		at = last.Ended.Add(every)
		if last.Ended.After(r.Now().Add(time.Minute)) { // the clock was set back
			at = r.Now().Add(every)
		}
	default:
		return nil, 0
	}
	if wait := at.Sub(r.Now()); wait > 0 {
		return nil, wait
	}
	return &velerov1.VerificationRun{Depth: r.Settings.Depth, Started: started}, 0
}

// verify verifies a backup, and writes how that has ended.
func (r *Controller) verify(ctx context.Context, b *velerov1.Backup, due *velerov1.VerificationRun) error {
	log := r.Log.With("backup", b.Name, "depth", due.Depth)
	uid := b.UID
	if err := r.write(ctx, b, func(v *velerov1.Verification) { v.Running = due }); err != nil {
		return err
	}
	result := &velerov1.VerificationResult{Request: due.Request, Depth: due.Depth, Started: due.Started}
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seen := b.DeepCopy()
	progress := r.follow(working, cancel, b, due)
	var report *verify.Report
	err := panics.Catch(log, func() (err error) {
		report, err = r.look(working, seen, due, progress.set)
		return err
	})
	progress.end()
	switch {
	case ctx.Err() != nil:
		return nil // the next server begins it again
	case run.Superseded(context.Cause(working)):
		return context.Cause(working)
	}
	result.Ended = metav1.NewTime(r.Now().Truncate(time.Second))
	if err != nil {
		result.Outcome, result.Message = velerov1.VerificationFailed, shorten.Text(err.Error(), 4*keptText)
		log.Error("the backup could not be verified", "error", err)
	} else {
		fill(result, report)
		if result.Outcome == velerov1.VerifiedDamaged {
			for _, finding := range report.Findings {
				log.Error("the verification of the backup has found damage", "kind", finding.Kind, "of", finding.Of, "message",
					finding.Message)
			}
		} else {
			log.Info("the backup was verified", "files", report.Files, "bytes", report.Bytes, "signature", report.Signature)
		}
	}
	err = r.write(ctx, b, func(v *velerov1.Verification) {
		v.Running = nil
		v.Add(result)
		v.Last = withStanding(*result, v.Standing())
	})
	if err != nil || b.UID != uid {
		return err
	}
	if r.Events != nil && result.Outcome == velerov1.VerifiedDamaged {
		r.Events.Eventf(b, nil, corev1.EventTypeWarning, "Damaged", "Verify", "%s",
			fmt.Sprintf("the verification has found %d problems: %s", len(report.Findings)+report.Others,
				report.Findings[0].Of+": "+report.Findings[0].Message))
	}
	return nil
}

// fill fills in what was found, as much as an annotation may have.
func fill(result *velerov1.VerificationResult, report *verify.Report) {
	result.Outcome = velerov1.VerifiedIntact
	result.Signature, result.Key, result.Files, result.Bytes = report.Signature, report.Key, report.Files, report.Bytes
	if len(report.Findings) > 0 {
		result.Outcome = velerov1.VerifiedDamaged
	}
	result.Others = report.Others
	for i, finding := range report.Findings {
		if i == keptFindings {
			result.Others += len(report.Findings) - i
			break
		}
		finding.Of, finding.Message = shorten.Text(finding.Of, keptText), shorten.Text(finding.Message, keptText)
		result.Findings = append(result.Findings, finding)
	}
	for i, note := range report.Notes {
		if i == keptNotes {
			break
		}
		result.Notes = append(result.Notes, shorten.Text(note, keptText))
	}
}

// withStanding returns a result with a note about the damage for which it has not looked.
func withStanding(
	result velerov1.VerificationResult, standing *velerov1.VerificationResult,
) *velerov1.VerificationResult {
	if standing.Outcome == velerov1.VerifiedDamaged && result.Outcome != velerov1.VerifiedDamaged {
		const text = "the backup is damaged: the verification at depth %s of %s has found what this one did not look for"
		result.Notes = append(slices.Clone(result.Notes), fmt.Sprintf(text, standing.Depth,
			standing.Ended.UTC().Format(time.RFC3339)))
	}
	return &result
}

// look verifies the files and volumes of a backup.
func (r *Controller) look(
	ctx context.Context, b *velerov1.Backup, due *velerov1.VerificationRun, progress func(done, total int64, at string),
) (*verify.Report, error) {
	if phase := run.BackupPhase(b); !phase.Restorable() {
		return nil, fmt.Errorf("the backup is in phase %s and cannot be restored, so there is nothing to verify; want "+
			"Completed or PartiallyFailed", phase)
	}
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return nil, err
	}
	if problem := run.LocationProblem(location); problem != "" {
		return nil, errors.New(problem)
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	var done, total int64
	return verify.Run(ctx, verify.Request{
		Objects: objects, Backup: b.Name, Depth: due.Depth, Ring: r.Keys.Ring(ctx), Noted: store.TallyOf(b),
		Known: r.known(ctx, b), Now: r.Now(),
		Progress: func(n, all int64, at string) {
			done, total = n, all
			progress(n, all, at)
		},
		Volumes: func(ctx context.Context, d *trust.Document, report *verify.Report) error {
			return lookAtVolumes(ctx, r.Repositories, objects, b, d, due.Depth == velerov1.VerifyData, report,
				func(at string) { progress(done, total, at) })
		},
	})
}

// known returns a function that finds the files of other backups by their sums. It reads the cache when it is needed.
func (r *Controller) known(ctx context.Context, b *velerov1.Backup) func(sum string) string {
	var files map[string]string
	return func(sum string) string {
		if files == nil {
			files = map[string]string{}
			var others velerov1.BackupList
			if err := r.List(ctx, &others, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
				return ""
			}
			for i := range others.Items {
				if other := &others.Items[i]; other.Name != b.Name {
					for name, known := range store.TallyOf(other) {
						files[known.SHA256] = fmt.Sprintf("file %s of backup %s", name, other.Name)
					}
				}
			}
		}
		return files[sum]
	}
}

// write changes what is known of the verifications of a backup, on the condition that it is the same one and neither
// deleted nor being deleted; otherwise the error is run.ErrNotFound or run.ErrPhaseChanged. The request that a result
// answers is removed.
func (r *Controller) write(ctx context.Context, b *velerov1.Backup, change func(*velerov1.Verification)) error {
	uid, phase := b.UID, run.BackupPhase(b)
	for {
		before := b.DeepCopy()
		known, _ := velerov1.VerificationOf(b) // what nobody can decode is replaced
		if known == nil {
			known = &velerov1.Verification{}
		}
		change(known)
		text, err := json.Marshal(known)
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.VerificationAnnotation, string(text))
		if known.Running == nil && known.Last != nil {
			request, err := velerov1.VerifyRequestOf(b)
			if err != nil || request != nil && request.ID == known.Last.Request {
				delete(b.Annotations, velerov1.VerifyAnnotation)
			}
		}
		err = r.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			if apierrors.IsNotFound(err) {
				return run.ErrNotFound
			}
			return err
		}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(before), b); err != nil {
			if apierrors.IsNotFound(err) {
				return run.ErrNotFound
			}
			return err
		}
		if b.UID != uid || b.DeletionTimestamp != nil {
			return run.ErrNotFound
		}
		if run.BackupPhase(b) != phase {
			return run.ErrPhaseChanged
		}
	}
}
