package control

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewBuilder returns a builder of the controller called name, with the settings that all controllers share. At most
// workers requests are reconciled at once.
func NewBuilder(mgr ctrl.Manager, name string, workers int, log logr.Logger) *ctrl.Builder {
	return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond,
			30*time.Second),
		SkipNameValidation: new(true), // names are unique within a manager; a process may have several
		LogConstructor:     func(*reconcile.Request) logr.Logger { return log },
	})
}
