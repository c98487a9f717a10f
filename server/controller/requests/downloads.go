package requests

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/run"
)

// urlLifetime is how long a signed URL is valid and its DownloadRequest is kept.
const urlLifetime = 10 * time.Minute

// Downloads answers DownloadRequests with signed URLs.
type Downloads struct {
	*run.Cluster
	Stores run.Stores
	Log    hclog.Logger
	Now    func() time.Time
}

// Reconcile answers one request, or deletes it when its URL has expired. It tries to answer a request until the request is
// as old as that.
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

// url returns a signed URL of the target, in the location of its backup.
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
