package requests

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// keepStatus is how long a processed ServerStatusRequest is kept.
const keepStatus = time.Minute

// Statuses answers ServerStatusRequests.
type Statuses struct {
	*run.Cluster
	Keys    *signing.Keys
	Version string                       // of the server
	Plugins func() []velerov1.PluginInfo // sorted by kind and name
	// Report returns the report on all plugins or, with details, on the matching ones.
	Report func(ctx context.Context, details string) *serverreport.PluginReport
	// Policies returns the report on the policies; may be nil.
	Policies func() *serverreport.PolicyReport
	// Blockers returns the backups for which a queued backup waits, or nil if it is not queued; may be nil.
	Blockers func(ctx context.Context, backup string) (*serverreport.Blockers, error)
	// Operations returns the report on the operations of the owners with the given keys, or of all owners without
	// keys; may be nil.
	Operations func(owners []string) *serverreport.Operations
	// Restoring answers a question about a restore that is at work; nil if it is not. May be nil.
	Restoring func(serverreport.RestoreQuestion) (*serverreport.Restoring, error)
	Log       hclog.Logger
	Now       func() time.Time
}

// Reconcile answers one request, or deletes it keepStatus later.
func (r *Statuses) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	request := new(velerov1.ServerStatusRequest)
	if err := r.Get(ctx, req.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	key, err := r.Keys.Get(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if request.Status.Phase == velerov1.ServerStatusRequestPhaseProcessed &&
		isSealed(key, request, statusAnswer(request)...) {
		return r.expire(ctx, request)
	}
	before := request.DeepCopy()
	request.Status.Phase = velerov1.ServerStatusRequestPhaseProcessed
	request.Status.ProcessedTimestamp = run.Timestamp(r.Now())
	request.Status.ServerVersion = serverreport.StatusVersion(r.Version)
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.VersionAnnotation, r.Version)
	request.Status.Plugins = r.Plugins()
	if owners, asked := request.Annotations[serverreport.OperationsOfAnnotation]; asked && r.Operations != nil {
		r.reportOperations(request, owners)
	} else if question, asked := request.Annotations[serverreport.RestoringOfAnnotation]; asked && r.Restoring != nil {
		r.reportRestoring(request, question)
	} else {
		r.report(ctx, request)
		r.reportPolicies(request)
		r.reportBlockers(ctx, request)
	}
	seal(key, request, statusAnswer(request)...)
	if err := r.Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: keepStatus}, nil
}

// report adds the report on the plugins, for which Velero's status has no field. A failure is only logged.
func (r *Statuses) report(ctx context.Context, request *velerov1.ServerStatusRequest) {
	text, err := r.Report(ctx, request.Annotations[serverreport.PluginDetailsAnnotation]).Encode()
	if err != nil {
		r.Log.Warn("the reply to a status request has no report on plugins", "request", request.Name, "error", err)
		return
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.PluginsAnnotation, text)
}

// reportPolicies adds the report on the policies. A failure is only logged.
func (r *Statuses) reportPolicies(request *velerov1.ServerStatusRequest) {
	if r.Policies == nil {
		return
	}
	text, err := r.Policies().Encode()
	if err != nil {
		r.Log.Warn("the reply to a status request has no report on policies", "request", request.Name, "error", err)
		return
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.PoliciesAnnotation, text)
}

// reportBlockers adds the backups for which the one in an annotation of the request waits. A failure is only logged.
func (r *Statuses) reportBlockers(ctx context.Context, request *velerov1.ServerStatusRequest) {
	name, asked := request.Annotations[serverreport.BlockersOfAnnotation]
	if !asked || r.Blockers == nil {
		return
	}
	blockers, err := r.Blockers(ctx, name)
	if err == nil && blockers != nil {
		var text string
		if text, err = blockers.Encode(); err == nil {
			metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.BlockersAnnotation, text)
		}
	}
	if err != nil {
		r.Log.Warn("the reply to a status request has no blockers", "request", request.Name, "backup", name, "error", err)
	}
}

// reportOperations adds the report on the operations of the given owners. A client that watches operations asks often,
// and an object has room for one long report, so the answer contains no other report. A failure is only logged.
func (r *Statuses) reportOperations(request *velerov1.ServerStatusRequest, owners string) {
	keys := strings.FieldsFunc(owners, func(c rune) bool { return c == ',' || c == ' ' })
	text, err := r.Operations(keys).Encode()
	if err != nil {
		r.Log.Warn("the reply to a status request has no report on operations", "request", request.Name, "error", err)
		return
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.OperationsAnnotation, text)
}

// reportRestoring adds the state of the restore of a question, and no other report, as reportOperations does.
func (r *Statuses) reportRestoring(request *velerov1.ServerStatusRequest, text string) {
	question, err := serverreport.DecodeRestoreQuestion(text)
	var report *serverreport.Restoring
	if err == nil {
		report, err = r.Restoring(question)
	}
	if err == nil && report != nil {
		if text, err = report.Encode(); err == nil {
			metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.RestoringAnnotation, text)
		}
	}
	if err != nil {
		r.Log.Warn("the reply to a status request has no state of a restore", "request", request.Name, "error", err)
	}
}

func (r *Statuses) expire(ctx context.Context, request *velerov1.ServerStatusRequest) (ctrl.Result, error) {
	answered := request.CreationTimestamp
	if request.Status.ProcessedTimestamp != nil {
		answered = *request.Status.ProcessedTimestamp
	}
	if left := answered.Add(keepStatus).Sub(r.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.Delete(ctx, request)
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return ctrl.Result{}, err
}
