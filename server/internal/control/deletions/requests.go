package deletions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// wait writes to the request what it waits for.
func (r *Controller) wait(ctx context.Context, request *velerov1.DeleteBackupRequest, reason string) error {
	if slices.Equal(request.Status.Errors, []string{reason}) {
		return nil
	}
	before := request.DeepCopy()
	request.Status.Errors = []string{reason}
	return client.IgnoreNotFound(r.Patch(ctx, request, client.MergeFrom(before)))
}

// expire deletes a request when it is old enough.
func (r *Controller) expire(ctx context.Context, request *velerov1.DeleteBackupRequest) (ctrl.Result, error) {
	if left := request.CreationTimestamp.Add(keepRequest).Sub(r.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, request))
}

// label moves the request to InProgress and labels it with the backup.
func (r *Controller) label(ctx context.Context, request *velerov1.DeleteBackupRequest, backup *velerov1.Backup) error {
	before := request.DeepCopy()
	if request.Labels == nil {
		request.Labels = make(map[string]string)
	}
	request.Labels[velerov1.BackupNameLabel] = velerov1.ValidLabelValue(backup.Name)
	request.Labels[velerov1.BackupUIDLabel] = string(backup.UID)
	request.Status.Phase = velerov1.DeleteBackupRequestPhaseInProgress
	request.Status.Errors = nil // it does not wait any more
	delete(request.Annotations, velerov1.KeptAnnotation)
	if err := r.Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("set the request's phase to InProgress: %w", err)
	}
	return nil
}

// process ends a request with the reason why the backup was not deleted.
func (r *Controller) process(ctx context.Context, request *velerov1.DeleteBackupRequest, reason error) error {
	before := request.DeepCopy()
	request.Status.Phase = velerov1.DeleteBackupRequestPhaseProcessed
	request.Status.Errors = []string{reason.Error()}
	if failures, ok := errors.AsType[*deletion.Failures](reason); ok {
		request.Status.Errors = failures.Messages()
	}
	err := r.Patch(ctx, request, client.MergeFrom(before))
	return client.IgnoreNotFound(err)
}

// processUnread ends a request whose backup was deleted although files of it were damaged. The request stays for a time,
// to say what was not read and what stays.
func (r *Controller) processUnread(ctx context.Context, record *audit) error {
	request := record.request
	if err := r.removeRequests(ctx, request, request); err != nil {
		return err
	}
	before := request.DeepCopy()
	request.Status.Phase = velerov1.DeleteBackupRequestPhaseProcessed
	request.Status.Errors = []string{"the backup was deleted, but files of it are damaged, so that what they name is " +
		"not known and stays, if there is anything"}
	request.Status.Errors = append(request.Status.Errors, record.unread...)
	if r.Events != nil {
		r.Events.Eventf(record.backup, request, corev1.EventTypeWarning, "DamagedFiles", "Deletion", "%s",
			shorten.Text(strings.Join(request.Status.Errors, "; "), maxReason))
	}
	return client.IgnoreNotFound(r.Patch(ctx, request, client.MergeFrom(before)))
}

// removeRequests deletes the requests to delete the same backup except for keep.
func (r *Controller) removeRequests(ctx context.Context, request, keep *velerov1.DeleteBackupRequest) error {
	var list velerov1.DeleteBackupRequestList
	if err := r.List(ctx, &list, client.InNamespace(request.Namespace)); err != nil {
		return fmt.Errorf("list the requests to delete the backup: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.BackupName != request.Spec.BackupName || keep != nil && other.UID == keep.UID {
			continue
		}
		if err := r.Delete(ctx, other); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete request %s: %w", other.Name, err)
		}
	}
	return nil
}
