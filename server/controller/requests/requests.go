package requests

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

const (
	// urlLifetime is how long a signed URL can be read, and its DownloadRequest is kept.
	urlLifetime = 10 * time.Minute

	// keepStatus is how long an answered ServerStatusRequest is kept.
	keepStatus = time.Minute
)

// Downloads answers DownloadRequests with signed URLs.
type Downloads struct {
	*run.Cluster
	Stores run.Stores
	Log    hclog.Logger
	Now    func() time.Time
}

// Reconcile answers one request, or removes it when its URL has expired. A request that cannot be
// answered is tried again until it is that old, too.
func (r *Downloads) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	request := new(velerov1.DownloadRequest)
	if err := r.Get(ctx, req.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	end := request.CreationTimestamp.Add(urlLifetime)
	if request.Status.Expiration != nil {
		end = request.Status.Expiration.Time
	}
	left := end.Sub(r.Now())
	if left <= 0 {
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, request))
	}
	if request.Status.Phase == velerov1.DownloadRequestPhaseProcessed {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	url, err := r.url(ctx, request)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("make the URL of %s %s: %w", request.Spec.Target.Kind, request.Spec.Target.Name, err)
	}
	before := request.DeepCopy()
	request.Status.Phase = velerov1.DownloadRequestPhaseProcessed
	request.Status.DownloadURL = url
	request.Status.Expiration = run.Timestamp(r.Now().Add(urlLifetime))
	if err := r.Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: urlLifetime}, nil
}

// url finds the location of the target, through its backup.
func (r *Downloads) url(ctx context.Context, request *velerov1.DownloadRequest) (string, error) {
	target := request.Spec.Target
	name := target.Name
	if target.Kind.OfRestore() {
		var restore velerov1.Restore
		if err := r.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: name}, &restore); err != nil {
			return "", fmt.Errorf("get restore %s: %w", name, err)
		}
		name = restore.Spec.BackupName
	}
	var backup velerov1.Backup
	if err := r.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: name}, &backup); err != nil {
		return "", fmt.Errorf("get backup %s: %w", name, err)
	}
	location, err := r.GetLocation(ctx, backup.Spec.StorageLocation)
	if err != nil {
		return "", err
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return "", fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	return objects.SignedURL(ctx, target, urlLifetime)
}

// Statuses answers ServerStatusRequests.
type Statuses struct {
	*run.Cluster
	Version string                       // of the server
	Plugins func() []velerov1.PluginInfo // sorted by kind and name
	// Report tells all about the plugins; with details, about those only that it means. See pluginreport.
	Report func(ctx context.Context, details string) *serverreport.PluginReport
	// Policies tells how the policies do; nil tells nothing.
	Policies func() *serverreport.PolicyReport
	Log      hclog.Logger
	Now      func() time.Time
}

// Reconcile answers one request, or removes it some time later.
func (r *Statuses) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	request := new(velerov1.ServerStatusRequest)
	if err := r.Get(ctx, req.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if request.Status.Phase == velerov1.ServerStatusRequestPhaseProcessed {
		return r.expire(ctx, request)
	}
	before := request.DeepCopy()
	request.Status.Phase = velerov1.ServerStatusRequestPhaseProcessed
	request.Status.ProcessedTimestamp = run.Timestamp(r.Now())
	request.Status.ServerVersion = r.Version
	request.Status.Plugins = r.Plugins()
	r.report(ctx, request)
	r.reportPolicies(request)
	if err := r.Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: keepStatus}, nil
}

// report adds what Velero's status has no field for. An answer without it is an answer as well.
func (r *Statuses) report(ctx context.Context, request *velerov1.ServerStatusRequest) {
	text, err := r.Report(ctx, request.Annotations[serverreport.PluginDetailsAnnotation]).Encode()
	if err != nil {
		r.Log.Warn("answer to a status request has no report of plugins", "request", request.Name, "error", err)
		return
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.PluginsAnnotation, text)
}

// reportPolicies adds how the policies do.
func (r *Statuses) reportPolicies(request *velerov1.ServerStatusRequest) {
	if r.Policies == nil {
		return
	}
	text, err := r.Policies().Encode()
	if err != nil {
		r.Log.Warn("answer to a status request has no report of policies", "request", request.Name, "error", err)
		return
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, serverreport.PoliciesAnnotation, text)
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
