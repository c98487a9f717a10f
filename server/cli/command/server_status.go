package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// ServerStatus asks the server for its version and its plugins. annotations select what else it reports. The server
// deletes the request.
func (s *Cluster) ServerStatus(
	ctx context.Context, timeout time.Duration, annotations map[string]string,
) (*velerov1.ServerStatusRequest, error) {
	request := &velerov1.ServerStatusRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: "cleat-cli-", Annotations: annotations},
	}
	if err := s.Create(ctx, request); err != nil {
		return nil, addRemedy(err)
	}
	// A context with a deadline would make clients give up early, with an error of their own.
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer time.AfterFunc(timeout, stop).Stop()
	looks := wait.Backoff{Duration: firstLook, Factor: 1.5, Cap: lastLook, Steps: math.MaxInt}
	err := looks.DelayFunc().Until(waiting, false, true, func(ctx context.Context) (bool, error) {
		err := s.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.ServerStatusRequestPhaseProcessed, err
	})
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return nil, errors.Join(
			fmt.Errorf("no answer within %s: is the server running, and does it serve namespace %s?", timeout, s.Namespace),
			client.IgnoreNotFound(s.Delete(ctx, request)))
	}
	if err != nil {
		return nil, err
	}
	return request, nil
}

// addRemedy adds to err what the user can do if the cluster lacks the custom resources or the namespace.
func addRemedy(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w; \"cleat install --crds-only\" installs the custom resources", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; name the namespace of the server with --namespace", err)
	default:
		return err
	}
}

// The times between two looks for the server's answer. They grow, because a server that does not answer soon may be
// away.
const (
	firstLook = 100 * time.Millisecond
	lastLook  = time.Second
)
