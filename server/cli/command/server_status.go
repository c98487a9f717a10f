package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// serverStatus asks the server for its version and its plugins, with annotations that say what else is wanted. The
// server removes the request.
func (s *Cluster) ServerStatus(ctx context.Context, timeout time.Duration, annotations map[string]string) (*velerov1.ServerStatusRequest, error) {
	request := &velerov1.ServerStatusRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: "cleat-cli-", Annotations: annotations},
	}
	if err := s.Create(ctx, request); err != nil {
		return nil, whatIsMissing(err)
	}
	// Without a deadline that clients know of, as they would give up before it with an error of their own.
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer time.AfterFunc(timeout, stop).Stop()
	err := wait.PollUntilContextCancel(waiting, statusPoll, false, func(ctx context.Context) (bool, error) {
		err := s.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.ServerStatusRequestPhaseProcessed, err
	})
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return nil, errors.Join(
			fmt.Errorf("no answer within %s: is the server running, and does it look after namespace %s?", timeout, s.Namespace),
			client.IgnoreNotFound(s.Delete(ctx, request)))
	}
	if err != nil {
		return nil, err
	}
	return request, nil
}

// whatIsMissing says what to do when the cluster has no place for a request to the server.
func whatIsMissing(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w; \"cleat install --crds-only\" installs the custom resources", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; name the namespace of the server with --namespace", err)
	default:
		return err
	}
}

// statusPoll is how often to look for the server's answer.
const statusPoll = 100 * time.Millisecond
