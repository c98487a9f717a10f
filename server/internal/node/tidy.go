package node

import (
	"context"
	"errors"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/server/internal/node/signal"
)

// tidier removes the signals of restores from the volumes of pods after the pods have read them. The user of a pod
// often lacks the permission.
type tidier struct{ *Agent }

// Reconcile processes one pod of the node. It sends no requests, and can be repeated.
func (t *tidier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := t.Get(ctx, request.NamespacedName, &pod, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	restore := seen(&pod)
	if restore == "" {
		return ctrl.Result{}, nil
	}
	volumes, err := hostpath.Directories(t.HostPods, string(pod.UID))
	for _, volume := range volumes {
		if err := errors.Join(inside(volume, func(root *os.Root) error { return signal.Remove(root, restore) }),
			volume.Close()); err != nil {
			t.Log.Warn("the directory .velero of a restore stays in a volume", "namespace", pod.Namespace, "pod", pod.Name,
				"volume", volume.Path, "error", err)
		}
	}
	return ctrl.Result{}, err
}

// seen returns the UID of the Restore whose signals a pod has read, or "" if there is none.
func seen(pod *corev1.Pod) string {
	at := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == restoreWait })
	done := slices.ContainsFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == restoreWait && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	})
	if at < 0 || !done || len(pod.Spec.InitContainers[at].Args) == 0 {
		return ""
	}
	return pod.Spec.InitContainers[at].Args[0]
}
