package runs

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

// retryPause is how long to wait before the cluster is asked again after a failure.
const retryPause = 500 * time.Millisecond

// await watches obj until see says that it has ended, and shows each state. The API server may be
// away meanwhile. see reads from obj, which holds the newest state.
func Await(ctx context.Context, s *command.Cluster, obj client.Object, list client.ObjectList, see func() command.State, show command.Progress) error {
	defer show.End()
	for told := false; ; {
		err := follow(ctx, s, obj, list, see, show)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("stopped waiting for %s; it goes on all the same", obj.GetName())
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%s was deleted", obj.GetName())
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case !told:
			show.Note(fmt.Sprintf("still waiting, though the API server cannot be asked now: %v", err))
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// follow watches until the end, or until the watch ends, which is an error.
func follow(ctx context.Context, s *command.Cluster, obj client.Object, list client.ObjectList, see func() command.State, show command.Progress) error {
	uid := obj.GetUID()
	if err := s.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	if uid != "" && obj.GetUID() != uid {
		return apierrors.NewNotFound(resourceOf(obj), obj.GetName())
	}
	if now := see(); now.Ended {
		show.State(now)
		return nil
	}
	show.State(see())
	watcher, err := s.Watch(ctx, list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{"metadata.name": obj.GetName()},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: obj.GetResourceVersion()}})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			if err := assign(obj, event.Object); err != nil {
				return err
			}
			now := see()
			show.State(now)
			if now.Ended {
				return nil
			}
		case watch.Deleted:
			return apierrors.NewNotFound(resourceOf(obj), obj.GetName())
		case watch.Error:
			return apierrors.FromObject(event.Object)
		default:
		}
	}
	return io.ErrUnexpectedEOF
}

// assign overwrites obj, which is one of the kinds that commands wait for, with the state that a
// watch brought.
func assign(obj client.Object, from runtime.Object) error {
	switch to := obj.(type) {
	case *velerov1.Backup:
		if b, ok := from.(*velerov1.Backup); ok {
			*to = *b
			return nil
		}
	case *velerov1.Restore:
		if r, ok := from.(*velerov1.Restore); ok {
			*to = *r
			return nil
		}
	default:
	}
	return fmt.Errorf("a watch of %T brought a %T", obj, from)
}

// resourceOf names the resource of an object in errors.
func resourceOf(obj client.Object) schema.GroupResource {
	switch obj.(type) {
	case *velerov1.Backup:
		return velerov1.Resource("backups")
	case *velerov1.Restore:
		return velerov1.Resource("restores")
	default:
		return schema.GroupResource{}
	}
}
