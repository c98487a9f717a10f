package loadpod

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/node/settings"
)

// Pods are the pods of the loads of one node.
type Pods struct {
	Cluster   *run.Cluster
	Agent     *corev1.Pod // of the node
	Settings  *settings.Settings
	ConfigMap string // name of the settings; empty for none
	HostPods  string // the kubelet's directory of pods
	StateDir  string // below which data movers have their caches
	// CacheLimitMB is how many MB the caches of repositories have, by the settings of these; 0 for Velero's default.
	CacheLimitMB int64
}

// Check returns an error if no pods can be made from the agent's.
func (p *Pods) Check() error {
	_, _, err := agentContainer(p.Agent)
	return err
}

// Create creates the pod of an attempt, unless it exists. The pod belongs to the load.
func (p *Pods) Create(ctx context.Context, load client.Object, order *Order) error {
	pod, err := p.pod(order)
	if err != nil {
		return err
	}
	kind, err := p.Cluster.GroupVersionKindFor(load)
	if err != nil {
		return err
	}
	pod.Namespace, pod.Name = p.Cluster.Namespace, nameOf(load.GetUID(), order.Attempt)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(load, kind)}
	pod.OwnerReferences[0].BlockOwnerDeletion = nil
	if err := p.Cluster.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create pod %s, which is to move the data: %w", pod.Name, err)
	}
	return nil
}

// Find returns the pod of an attempt, nil if there is none. It is not in the cache until it has a node.
func (p *Pods) Find(ctx context.Context, load types.UID, attempt int) (*corev1.Pod, error) {
	key := client.ObjectKey{Namespace: p.Cluster.Namespace, Name: nameOf(load, attempt)}
	pod := new(corev1.Pod)
	err := p.Cluster.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) {
		err = p.Cluster.Live.Get(ctx, key, pod)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get pod %s, which moves the data: %w", key.Name, err)
	case pod.Labels[loadLabel] != string(load):
		return nil, fmt.Errorf("pod %s/%s exists and is not of this load; delete it", key.Namespace, key.Name)
	}
	return pod, nil
}

// Stop deletes the pod of an attempt. Its program gets some seconds to clean up.
func (p *Pods) Stop(ctx context.Context, pod *corev1.Pod, seconds int64) error {
	if pod.DeletionTimestamp != nil && (pod.DeletionGracePeriodSeconds == nil ||
		*pod.DeletionGracePeriodSeconds <= seconds) {
		return nil
	}
	err := p.Cluster.Delete(ctx, pod, client.GracePeriodSeconds(seconds), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s, which moves the data: %w", pod.Name, err)
	}
	return nil
}

// Discard deletes the pod of an attempt at once, if there is one.
func (p *Pods) Discard(ctx context.Context, load types.UID, attempt int) error {
	pod, err := p.Find(ctx, load, attempt)
	if err != nil || pod == nil {
		return err
	}
	return p.Stop(ctx, pod, 0)
}

// Sweep deletes the pods of a load that are in the cache, those of attempts before the given one.
func (p *Pods) Sweep(ctx context.Context, load types.UID, before int) error {
	var list corev1.PodList
	if err := p.Cluster.List(ctx, &list, client.InNamespace(p.Cluster.Namespace),
		client.MatchingLabels{loadLabel: string(load)}, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if attempt, known := attemptOf(pod.Name, load); known && attempt >= before {
			continue
		}
		if err := p.Stop(ctx, pod.DeepCopy(), stopGrace); err != nil {
			return err
		}
	}
	return nil
}

// attemptOf returns the attempt of a load whose pod has a name.
func attemptOf(name string, load types.UID) (int, bool) {
	number, ok := strings.CutPrefix(name, fmt.Sprintf("move-%s-", load))
	attempt, err := strconv.Atoi(number)
	return attempt, ok && err == nil
}

// Most is how often the data of a load is moved until an attempt has a result. Attempts that were interrupted do not
// count.
const Most = 3

// stopGrace is how many seconds a program may take to end whose result nobody waits for.
const stopGrace = 10

// OfLoad returns the load to which a pod belongs; name is empty for other pods.
func OfLoad(pod client.Object) (kind, name string) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || pod.GetLabels()[loadLabel] != string(owner.UID) {
		return "", ""
	}
	return owner.Kind, owner.Name
}

// Attempt describes an attempt, before which some were interrupted.
func Attempt(n, interrupted int) string {
	if interrupted == 0 && n <= Most {
		return fmt.Sprintf("attempt %d of %d", n, Most)
	}
	return fmt.Sprintf("attempt %d, which counts as %d of %d,", n, n-interrupted, Most)
}
