package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Kubelet serves the pods of one node.
type Kubelet struct {
	// Node is the name of the node.
	Node string

	client  kubernetes.Interface
	dir     string
	server  *httptest.Server
	stop    context.CancelFunc
	running sync.WaitGroup
	execs   execs
}

// ForTest starts a kubelet that stops when the test ends.
func ForTest(t testing.TB, config *rest.Config) *Kubelet {
	t.Helper()
	k, err := Start(t.Context(), config, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Stop()) })
	return k
}

// Start registers a node and serves it until Stop. The directories of pods are in dir. config must not limit the rate
// of requests.
func Start(ctx context.Context, config *rest.Config, dir string) (*Kubelet, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	k := &Kubelet{client: client, dir: dir}
	k.server = httptest.NewUnstartedServer(k.handler())
	k.server.StartTLS()
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := k.register(ctx); err != nil {
		k.stop()
		k.server.Close()
		return nil, fmt.Errorf("register the node: %w", err)
	}
	k.running.Go(func() { k.beat(ctx) })
	k.running.Go(func() { k.removePods(ctx) })
	return k, nil
}

// Stop ends all commands, removes the node, and returns when nothing runs any more.
func (k *Kubelet) Stop() error {
	k.stop()
	k.execs.kill()
	k.server.CloseClientConnections()
	k.server.Close()
	k.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := k.client.CoreV1().Nodes().Delete(ctx, k.Node, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Dir returns the directory in which the commands of a pod run.
func (k *Kubelet) Dir(namespace, pod string) string { return filepath.Join(k.dir, namespace, pod) }

// Run makes a pod Running on this node, with all of its containers.
func (k *Kubelet) Run(ctx context.Context, namespace, name string, ready bool) error {
	pods := k.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		err := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Target: corev1.ObjectReference{Kind: "Node",
				Name: k.Node},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("bind the pod: %w", err)
		}
	}
	for {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		now := metav1.Now()
		pod.Status.Phase, pod.Status.StartTime, pod.Status.ContainerStatuses = corev1.PodRunning, &now, nil
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: now}}
		for _, container := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Image: container.Image, Ready: ready, State: corev1.ContainerState{
					Running: &corev1.ContainerStateRunning{StartedAt: now},
				},
			})
		}
		if _, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// register creates the node. The API server finds the kubelet by the address and port in its status.
func (k *Kubelet) register(ctx context.Context) error {
	host, text, err := net.SplitHostPort(k.server.Listener.Addr().String())
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return err
	}
	node, err := k.client.CoreV1().Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubelet-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	k.Node = node.Name
	now := metav1.Now()
	status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now,
			LastTransitionTime: now}},
	}})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, k.Node, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	return err
}

// beat renews the lease of the node. Without it, the pods would be evicted after a while.
func (k *Kubelet) beat(ctx context.Context) {
	leases, seconds := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), int32(40)
	each(ctx, 10*time.Second, func() error {
		now := metav1.NowMicro()
		lease, err := leases.Get(ctx, k.Node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(ctx, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: k.Node},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &k.Node, LeaseDurationSeconds: &seconds, RenewTime: &now},
			}, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// removePods removes deleted pods of the node.
func (k *Kubelet) removePods(ctx context.Context) {
	each(ctx, time.Second, func() error {
		list, err := k.client.CoreV1().Pods("").List(ctx,
			metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", k.Node).String()})
		if err != nil {
			return err
		}
		var errs []error
		for i := range list.Items {
			if pod := &list.Items[i]; pod.DeletionTimestamp != nil {
				errs = append(errs, k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
					metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			}
		}
		return errors.Join(errs...)
	})
}

// each calls do at once and at intervals until ctx ends. Failures are repeated: the API server of a test may be
// unavailable.
func each(ctx context.Context, interval time.Duration, do func() error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "kubelet:", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
