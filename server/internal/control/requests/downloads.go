package requests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/download"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/versioning"
)

const (
	// urlLifetime is how long a URL is valid and its DownloadRequest is kept.
	urlLifetime = 10 * time.Minute
	// patience is the age at which a request is answered with the reason why there is no URL. Until then the reason
	// may disappear: the backup may be new, or the API server may restart.
	patience = 5 * time.Second
)

// Downloads answers DownloadRequests with signed URLs, with URLs of the server itself if an object store cannot sign,
// or with the reason why there is none; those are Failed.
type Downloads struct {
	*run.Cluster
	Stores run.Stores
	Keys   *signing.Keys
	// Base is the URL at which users reach the download.Server of this server; nil if they cannot.
	Base *url.URL
	// Local is its URL for users on this machine, who get the files of a directory from there; nil if there are none.
	Local    *url.URL
	Log      hclog.Logger
	Now      func() time.Time
	Patience time.Duration // zero takes the default
}

// Reconcile answers one request, or deletes it when its URL has expired.
func (r *Downloads) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	request := new(velerov1.DownloadRequest)
	if err := r.Get(ctx, req.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	key, err := r.Keys.Get(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	end := request.CreationTimestamp.Add(urlLifetime)
	phase := request.Status.Phase
	answered := (phase == velerov1.DownloadRequestPhaseProcessed || phase == velerov1.DownloadRequestPhaseFailed) &&
		request.Status.Expiration != nil && isSealed(key, request, downloadAnswer(request)...)
	if answered {
		end = request.Status.Expiration.Time
	}
	left := end.Sub(r.Now())
	if left <= 0 {
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, request))
	}
	if answered {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	until := run.Timestamp(r.Now().Add(urlLifetime))
	address, err := r.address(ctx, request, key, until.Time)
	if err != nil {
		err = fmt.Errorf("make the URL of %s %s: %w", request.Spec.Target.Kind, request.Spec.Target.Name, err)
		if ctx.Err() != nil || !errors.Is(err, kubeapi.ErrInvalidName) &&
			r.Now().Sub(request.CreationTimestamp.Time) < cmp.Or(r.Patience, patience) {
			return ctrl.Result{}, err
		}
		r.Log.Warn("a download request is answered without a URL", "request", request.Name, "error", err)
		address = download.Unavailable(err.Error())
	}
	answer := velerov1.DownloadRequestStatus{Phase: velerov1.DownloadRequestPhaseProcessed, DownloadURL: address,
		Expiration: until}
	if reason, _, failed := download.Reason(address); failed {
		answer.Phase, answer.Message = velerov1.DownloadRequestPhaseFailed, reason
	}
	err = r.answer(ctx, request, key, answer)
	if apierrors.IsInvalid(err) && answer.Phase == velerov1.DownloadRequestPhaseFailed {
		// The installed definition is that of Velero 1.18 or older, which has neither the phase nor the message.
		answer.Phase, answer.Message = velerov1.DownloadRequestPhaseProcessed, ""
		err = r.answer(ctx, request, key, answer)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: urlLifetime}, nil
}

// answer writes the status of a request. Clients of Velero 1.18 and older wait for the URL, whatever the phase is.
func (r *Downloads) answer(
	ctx context.Context, request *velerov1.DownloadRequest, key *signing.Key, status velerov1.DownloadRequestStatus,
) error {
	answered := request.DeepCopy()
	answered.Status = status
	seal(key, answered, downloadAnswer(answered)...)
	return r.Patch(ctx, answered, client.MergeFrom(request))
}

// address returns the URL of the target, or the reason why the object store of its backup has none. An error may be
// transient.
func (r *Downloads) address(
	ctx context.Context, request *velerov1.DownloadRequest, key *signing.Key, until time.Time,
) (string, error) {
	target := request.Spec.Target
	objects, err := openTarget(ctx, r, r.Stores, request.Namespace, target)
	if errors.Is(err, errNothingStored) { // the cache may be late
		objects, err = openTarget(ctx, r.Live, r.Stores, request.Namespace, target)
	}
	if errors.Is(err, errNothingStored) {
		return download.NoFile(err.Error()), nil
	}
	if err != nil {
		return "", err
	}
	file := download.FileOf(request)
	signed, unsigned := objects.SignedURL(ctx, file, urlLifetime)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if unsigned == nil && isWeb(signed) {
		return signed, nil
	}
	base := r.Base
	if base == nil && unsigned == nil {
		base = r.Local
	}
	if base != nil {
		r.Log.Debug("the server offers a file itself, because its object store cannot sign URLs", "request", request.Name,
			"error", unsigned)
		return download.Grant{Request: request.Name, UID: request.UID, File: file, Until: until}.Address(base, key), nil
	}
	if errors.Is(unsigned, versioning.ErrUnavailable) {
		return "", unsigned
	}
	if unsigned == nil {
		unsigned = errors.New("its URLs lead to files on the machine of the server")
	}
	if found, err := objects.Exists(ctx, file); err == nil && !found {
		return download.NoFile(""), nil
	}
	return download.Unavailable(fmt.Sprintf("the object store cannot make a URL of the file: %v; the server cannot "+
		"offer the file itself, "+
		"because it has no address that users reach: give it one with --download-url", unsigned)), nil
}

// isWeb reports whether users on other machines can use a URL.
func isWeb(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http")
}
