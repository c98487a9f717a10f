package runs

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/cli/command"
)

// retryPause is the time between two attempts to reach the API server.
const retryPause = 500 * time.Millisecond

// await watches o until it has ended and shows each state. It tolerates an API server that is away for a while.
func await(ctx context.Context, cluster *command.Cluster, o *Object, progress command.Progress) error {
	defer progress.End()
	for noted := false; ; {
		err := follow(ctx, cluster, o, progress)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("stopped waiting for %s; it continues", o.GetName())
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%s was deleted", o.GetName())
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case !noted:
			progress.Note(fmt.Sprintf("still waiting, but the API server cannot be reached: %v", err))
			noted = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// follow watches o until it has ended. It returns an error if the watch ends before.
func follow(ctx context.Context, cluster *command.Cluster, o *Object, progress command.Progress) error {
	uid := o.GetUID()
	if err := cluster.Get(ctx, client.ObjectKeyFromObject(o.Object), o.Object); err != nil {
		return err
	}
	if uid != "" && o.GetUID() != uid {
		return apierrors.NewNotFound(o.resource, o.GetName())
	}
	if o.show(progress) {
		return nil
	}
	watcher, err := cluster.Watch(ctx, o.list, client.InNamespace(o.GetNamespace()), client.MatchingFields{"metadata.name": o.GetName()},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: o.GetResourceVersion()}})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			if err := o.assign(event.Object); err != nil {
				return err
			}
			if o.show(progress) {
				return nil
			}
		case watch.Deleted:
			return apierrors.NewNotFound(o.resource, o.GetName())
		case watch.Error:
			return apierrors.FromObject(event.Object)
		default:
		}
	}
	return io.ErrUnexpectedEOF
}

// show shows the state of o and reports whether o has ended.
func (o *Object) show(progress command.Progress) bool {
	now := o.state()
	progress.State(command.State{Phase: now.Phase, Done: now.Done, Total: now.Total})
	return now.Ended()
}
