package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

var (
	servicesResource = schema.GroupResource{Resource: "services"}
	gvrSlices        = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

// services are the services that the API server calls because of restored items. All items that wait for a service
// share one wait.
type services struct {
	mu   sync.Mutex
	some map[plan.Service]*serving
}

// serving is the wait for a service. why and err are valid once done is closed.
type serving struct {
	done chan struct{}
	why  string
	err  error
}

// awaitService returns when a service has a ready endpoint, or an error and why it is not ready. It waits until that
// time, and not for a service that neither the cluster nor the plan has.
func (e *engine) awaitService(
	ctx context.Context, planned *plan.Order, called plan.Service, until time.Time,
) (why string, err error) {
	e.services.mu.Lock()
	one, known := e.services.some[called]
	if !known {
		one = &serving{done: make(chan struct{})}
		if e.services.some == nil {
			e.services.some = map[plan.Service]*serving{}
		}
		e.services.some[called] = one
	}
	e.services.mu.Unlock()
	if !known {
		one.err = e.objects.Wait(ctx, called.String(), time.Until(until),
			func(ctx context.Context) (bool, error) {
				ready, why, err := e.serves(ctx, planned, called)
				if err == nil { // the end of the wait may have interrupted it
					one.why = why
				}
				return ready, err
			})
		close(one.done)
	}
	select {
	case <-one.done:
		return one.why, one.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// serves reports whether a service has a ready endpoint, or why not.
func (e *engine) serves(
	ctx context.Context, planned *plan.Order, called plan.Service,
) (ready bool, why string, err error) {
	to := target{gvr: servicesResource.WithVersion("v1"), namespace: called.Namespace}
	reply, err := e.api.Do(ctx, to.read(called.Name, kubeapi.JSON))
	if apierrors.IsNotFound(err) {
		why := fmt.Sprintf("%s does not exist", called)
		if !planned.HasService(called) {
			return false, why, errors.New(why + ", and the restore does not have it")
		}
		return false, why, nil
	}
	if err != nil {
		return false, "", err
	}
	var service corev1.Service
	if err := json.Unmarshal(reply.Body, &service); err != nil {
		return false, "", fmt.Errorf("decode %s: %w", called, err)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return true, "", nil
	}
	reply, err = e.api.Do(ctx, kubeapi.Request{Resource: gvrSlices, Namespace: called.Namespace,
		Query: url.Values{"labelSelector": {discoveryv1.LabelServiceName + "=" + called.Name}}, Accept: kubeapi.JSON})
	if err != nil {
		return false, "", err
	}
	var list discoveryv1.EndpointSliceList
	if err := json.Unmarshal(reply.Body, &list); err != nil {
		return false, "", fmt.Errorf("decode the endpoints of %s: %w", called, err)
	}
	for i := range list.Items {
		for k := range list.Items[i].Endpoints {
			endpoint := &list.Items[i].Endpoints[k]
			if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			if is, err := e.isLive(ctx, called.Namespace, endpoint); is || err != nil {
				return is, "", err
			}
		}
	}
	return false, fmt.Sprintf("%s has no ready endpoint", called), nil
}

// isLive reports whether the pod of an endpoint exists. Endpoints that were restored have pods that are gone.
func (e *engine) isLive(ctx context.Context, namespace string, endpoint *discoveryv1.Endpoint) (bool, error) {
	pod := endpoint.TargetRef
	if pod == nil || pod.Kind != "Pod" || pod.UID == "" {
		return true, nil
	}
	reply, err := e.api.Do(ctx, target{gvr: gvrPods, namespace: namespace}.read(pod.Name, kubeapi.Metadata))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var live metav1.PartialObjectMetadata
	if err := json.Unmarshal(reply.Body, &live); err != nil {
		return false, fmt.Errorf("decode pod %s/%s: %w", namespace, pod.Name, err)
	}
	return live.UID == pod.UID, nil
}
