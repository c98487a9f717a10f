package location

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/locks"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

const (
	// validationTimeout limits one validation. An object store that does not respond becomes Unavailable.
	validationTimeout = time.Minute
	// workers is the number of locations that are validated concurrently. One that does not respond must not delay the
	// others.
	workers = 4
	// maxAsks is the number of locations whose validation can be requested before the controller has started.
	maxAsks = 64
	// clockSlack is the largest difference between the clocks of two servers. A time in the status that is farther in the
	// future is not a server's.
	clockSlack = time.Minute
	// askPause is the default of Reconciler.AskPause.
	askPause = 5 * time.Second
)

// Reconciler validates BackupStorageLocations and writes their status. It validates a location when this process sees
// it for the first time, when its spec has changed, when Ask or Renewed requests it, and at the location's frequency.
type Reconciler struct {
	Client client.Client
	Opener *Opener
	Log    hclog.Logger
	Now    func() time.Time

	// Frequency applies to locations without a validationFrequency, or with a negative one. If it is zero, a location is
	// validated only when it is new or has changed.
	Frequency time.Duration
	// DefaultLocation is the name of the location that becomes the default if there is none. It may be empty.
	DefaultLocation string
	// Observe is called with the result of each validation. It may be nil.
	Observe func(location string, available bool)
	// PublicPassword reports whether the repositories in a location have the public password. It may be nil.
	PublicPassword func(context.Context, *velerov1.BackupStorageLocation) (bool, error)
	// Renewed has a value each time after files have changed that stores may have read, such as credentials. All locations
	// are validated then. It may be nil.
	Renewed <-chan struct{}
	// AskPause is the least time between two validations that Ask requests; 0 for five seconds.
	AskPause time.Duration

	mu        sync.Mutex
	validated map[types.NamespacedName]velerov1.BackupStorageLocationSpec // the specs that this process has validated
	asked     map[types.NamespacedName]bool                               // a validation was requested
	asks      chan event.TypedGenericEvent[*velerov1.BackupStorageLocation]
}

// Ask requests a validation before the next one is due, because something waits for the location or has failed to use
// it. It does not wait, and may be called at any rate.
func (r *Reconciler) Ask(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[types.NamespacedName]bool{}
	}
	if r.asked[name] || r.asks == nil {
		return
	}
	r.asked[name] = true
	location := &velerov1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case r.asks <- event.TypedGenericEvent[*velerov1.BackupStorageLocation]{Object: location}:
	default: // it was requested again
		r.asked[name] = false
	}
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	r.mu.Lock()
	r.asks = make(chan event.TypedGenericEvent[*velerov1.BackupStorageLocation], maxAsks)
	r.mu.Unlock()
	if err := manager.Add(ctrlmanager.RunnableFunc(r.askWhenRenewed)); err != nil {
		return fmt.Errorf("validate locations after their credentials have changed: %w", err)
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("backup-storage-location").
		For(&velerov1.BackupStorageLocation{}, builder.WithPredicates(specChanged())).
		WatchesRawSource(source.Channel(r.asks, &handler.TypedEnqueueRequestForObject[*velerov1.BackupStorageLocation]{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// askWhenRenewed requests the validation of all locations each time that Renewed has a value, until ctx ends.
func (r *Reconciler) askWhenRenewed(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.Renewed:
		}
		var list velerov1.BackupStorageLocationList
		if err := r.Client.List(ctx, &list); err != nil {
			r.Log.Warn("the locations are not validated before the next time, although what their stores read has changed",
				"error", err)
		}
		for i := range list.Items {
			r.Ask(client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
}

// specChanged drops updates that only change the status, as each validation does. It cannot use the generation: the
// resource has no status subresource, so the generation counts status changes too.
func specChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*velerov1.BackupStorageLocation)
		after, ok2 := e.ObjectNew.(*velerov1.BackupStorageLocation)
		return !ok1 || !ok2 || !equality.Semantic.DeepEqual(before.Spec, after.Spec)
	}}
}

// Reconcile validates a location if it is due, and requeues it for the next validation.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := r.ensureDefault(ctx, request.Namespace); err != nil {
		return ctrl.Result{}, err
	}
	var location velerov1.BackupStorageLocation
	if err := r.Client.Get(ctx, request.NamespacedName, &location); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("get backup storage location %s: %w", request.NamespacedName, err)
		}
		r.forget(request.NamespacedName)
		return ctrl.Result{}, r.Opener.Release(request.Namespace, request.Name)
	}
	frequency := r.frequency(&location)
	if wait, due := r.due(&location, frequency); !due {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	validated := location.Spec.DeepCopy() // the response to the patch below may contain a newer spec
	before := location.DeepCopy()
	problem := r.validate(ctx, &location)
	if ctx.Err() != nil { // the server is stopping; the location may be fine
		return ctrl.Result{}, ctx.Err()
	}
	if err := r.writeStatus(ctx, before, &location, problem); err != nil {
		return ctrl.Result{}, err
	}
	r.remember(request.NamespacedName, *validated)
	return ctrl.Result{RequeueAfter: frequency}, nil
}

// frequency returns the interval between validations of a location; zero means that they do not repeat.
func (r *Reconciler) frequency(location *velerov1.BackupStorageLocation) time.Duration {
	if own := location.Spec.ValidationFrequency; own != nil && own.Duration >= 0 {
		return own.Duration
	}
	return r.Frequency
}

// due reports whether the location is to be validated now. If not, it returns the time until it is due; zero means
// never.
func (r *Reconciler) due(location *velerov1.BackupStorageLocation, frequency time.Duration) (time.Duration, bool) {
	last := location.Status.LastValidationTime
	key := client.ObjectKeyFromObject(location)
	if last == nil || last.After(r.Now().Add(clockSlack)) || !r.knows(key, location.Spec) {
		return 0, true
	}
	if r.isAsked(key) {
		pause := cmp.Or(r.AskPause, askPause)
		if frequency == 0 || pause < frequency {
			frequency = pause
		}
	}
	if frequency == 0 {
		return 0, false
	}
	wait := last.Add(frequency).Sub(r.Now())
	return wait, wait <= 0
}

// validate opens the location and checks the bucket, and notes in location what the bucket locks.
func (r *Reconciler) validate(ctx context.Context, location *velerov1.BackupStorageLocation) error {
	ctx, cancel := context.WithTimeoutCause(ctx, validationTimeout,
		fmt.Errorf("the object store did not answer within %s", validationTimeout))
	defer cancel()
	opened, err := r.Opener.open(ctx, location)
	if err == nil {
		err = opened.Validate(ctx)
	}
	if err == nil {
		var found *objectstore.Locks
		if found, err = opened.Locks(ctx); errors.Is(err, errors.ErrUnsupported) {
			found, err = nil, nil
		}
		if err == nil {
			locks.Note(location, found)
		}
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// writeStatus writes the result of a validation.
func (r *Reconciler) writeStatus(
	ctx context.Context, before, location *velerov1.BackupStorageLocation, problem error,
) error {
	if r.Observe != nil {
		r.Observe(location.Name, problem == nil)
	}
	status := &location.Status
	status.LastValidationTime = &metav1.Time{Time: r.Now().UTC().Truncate(time.Second)}
	status.Phase, status.Message = velerov1.BackupStorageLocationPhaseAvailable, r.warning(ctx, location)
	if problem != nil {
		status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
		status.Message = statusMessage(fmt.Sprintf("BackupStorageLocation %q is unavailable: %v", location.Name, problem))
	}
	if err := r.Client.Patch(ctx, location, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the status of backup storage location %s: %w", location.Name, err))
	}
	if before.Status.Phase == status.Phase && before.Status.Message == status.Message {
		return nil
	}
	switch {
	case problem != nil:
		r.Log.Warn("backup storage location is unavailable", "location", location.Name, "error", status.Message)
	case status.Message != "":
		r.Log.Warn("backup storage location is available", "location", location.Name, "warning", status.Message)
	default:
		r.Log.Info("backup storage location is available", "location", location.Name)
	}
	return nil
}

// warning returns the warning about an available location: its repositories have the public password.
func (r *Reconciler) warning(ctx context.Context, location *velerov1.BackupStorageLocation) string {
	if r.PublicPassword == nil {
		return ""
	}
	public, err := r.PublicPassword(ctx, location)
	if err != nil {
		r.Log.Warn("could not find out whether the repositories of a location have the public password", "location",
			location.Name, "error", err)
	}
	if !public {
		return ""
	}
	return repopassword.Warning
}

func (r *Reconciler) knows(name types.NamespacedName, spec velerov1.BackupStorageLocationSpec) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	validated, known := r.validated[name]
	return known && equality.Semantic.DeepEqual(validated, spec)
}

func (r *Reconciler) remember(name types.NamespacedName, spec velerov1.BackupStorageLocationSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.validated == nil {
		r.validated = map[types.NamespacedName]velerov1.BackupStorageLocationSpec{}
	}
	r.validated[name] = spec
	delete(r.asked, name)
}

func (r *Reconciler) isAsked(name types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[name]
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.validated, name)
	delete(r.asked, name)
}
