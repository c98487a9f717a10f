package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/server/internal/node/signal"
)

// signals reports to the restored pods of the node that their volumes are restored, once all loads have ended for which
// a pod waits. Those include the loads of other pods, on any node, that restore a claim which the pod mounts as well.
//
// The report is in the volume podclaims.WaitVolume of the pod. A pod without one gets it in each volume, see
// signalRestored; from these, signals removes it after the pod has read it, because the user of a pod often lacks the
// permission.
type signals struct{ *Agent }

// waitingPod is a pod that waits for its volumes.
type waitingPod struct {
	*corev1.Pod
	restore string   // UID of the Restore
	volumes []string // for which it waits
}

// waitingIn returns what a pod waits for. ok is false if it does not learn the end in podclaims.WaitVolume.
func waitingIn(pod *corev1.Pod) (w waitingPod, ok bool) {
	at := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == restoreWait })
	if at < 0 || len(pod.Spec.InitContainers[at].Args) == 0 ||
		!slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == podclaims.WaitVolume && v.EmptyDir != nil
		}) {
		return w, false
	}
	w = waitingPod{Pod: pod, restore: pod.Spec.InitContainers[at].Args[0]}
	for _, mount := range pod.Spec.InitContainers[at].VolumeMounts {
		if mount.Name == podclaims.WaitVolume {
			ok = true
			continue
		}
		w.volumes = append(w.volumes, mount.Name)
	}
	return w, ok
}

// ofLoad returns the pods of the node that may wait for a load.
func (s *signals) ofLoad(ctx context.Context, object client.Object) (requests []ctrl.Request) {
	owner := metav1.GetControllerOf(object)
	of, is := object.(*velerov1.PodVolumeRestore)
	if owner == nil || !is || !of.Status.Phase.Terminal() {
		return nil
	}
	var pods corev1.PodList
	if err := s.List(ctx, &pods, client.InNamespace(of.Spec.Pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	for i := range pods.Items {
		if w, ok := waitingIn(&pods.Items[i]); ok && w.restore == string(owner.UID) && waits(w.Pod) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.Pod)})
		}
	}
	return requests
}

// Reconcile processes one pod of the node, and can be repeated.
func (s *signals) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := s.Get(ctx, request.NamespacedName, &pod, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if restore := seen(&pod); restore != "" {
		return ctrl.Result{}, s.tidy(&pod, restore)
	}
	w, ok := waitingIn(&pod)
	if !ok || !waits(&pod) || len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, pod.Namespace) {
		return ctrl.Result{}, nil
	}
	ended, failed, err := s.ended(ctx, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !ended {
		return ctrl.Result{RequeueAfter: retryDelay}, nil // the end of a load comes earlier
	}
	volume, err := hostpath.Find(s.HostPods, string(pod.UID), podclaims.WaitVolume)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("report the end of a restore to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	defer func() { _ = volume.Close() }() // a directory
	return ctrl.Result{}, inside(volume, func(root *os.Root) error {
		switch {
		case failed != "":
			return signal.Failed(root, w.restore, failed)
		case signal.IsRestored(root, w.restore):
			return nil
		}
		return signal.Restored(root, w.restore)
	})
}

// ended reports whether the volumes of a pod are restored, or failed says that one of them is not.
func (s *signals) ended(ctx context.Context, w waitingPod) (ended bool, failed string, err error) {
	at := slices.IndexFunc(s.kinds, func(k *kind) bool { return k.is(new(velerov1.PodVolumeRestore)) })
	all, err := s.loads(ctx, s.kinds[at])
	if err != nil {
		return false, "", err
	}
	all = slices.DeleteFunc(all, func(l *load) bool {
		owner := metav1.GetControllerOf(l.Object)
		return owner == nil || string(owner.UID) != w.restore
	})
	ended = true
	for _, volume := range w.volumes {
		found := slices.IndexFunc(all, func(l *load) bool { return w.waitsFor(volume, l) })
		if found < 0 {
			ended = false
			if failed, err = s.neverBegins(ctx, w, volume); err != nil || failed != "" {
				return true, failed, err
			}
			continue
		}
		l := all[found]
		if err := s.prove(ctx, l); err != nil {
			return false, "", err
		}
		switch phase := l.phase(); {
		case !phase.Terminal() || l.proof.refused != "" || l.proof.forged:
			ended = false
		case phase != velerov1.LoadPhaseCompleted:
			return true, notRestored(volume, l.status.Message), nil
		}
	}
	return ended, "", nil
}

// notRestored returns the sentence that says that the data of a volume is not restored.
func notRestored(volume, why string) string {
	return fmt.Sprintf("the data of volume %s was not restored: %s", volume, why)
}

// waitsFor reports whether a load restores a volume of a pod: for the pod itself, or for another one that mounts the
// same claim.
func (w waitingPod) waitsFor(volume string, l *load) bool {
	of := l.spec.pod
	if of.Namespace != w.Namespace {
		return false
	}
	if of.Name == w.Name && l.spec.volume == volume {
		return true
	}
	claim := claimOf(w.Pod, volume).Name
	return claim != "" && l.GetAnnotations()[velerov1.PVCNameAnnotation] == claim
}

// neverBegins returns why there will be no load for a volume for which a pod waits, or "" if it may come.
func (s *signals) neverBegins(ctx context.Context, w waitingPod, volume string) (string, error) {
	var r velerov1.Restore
	name := w.Labels[velerov1.RestoreNameLabel] // instead of a long name, another one: the pod waits for its own timeout
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, &r)
	switch {
	case name == "", apierrors.IsNotFound(err), err == nil && r.UID != types.UID(w.restore):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get Restore %s, for which pod %s/%s waits: %w", name, w.Namespace, w.Name, err)
	case r.Status.Phase.IsNew() || r.Status.Phase == velerov1.RestorePhaseInProgress:
		return "", nil
	}
	// The cache may be older than the end of the run.
	var live velerov1.PodVolumeRestoreList
	if err := s.Live.List(ctx, &live, client.InNamespace(s.Namespace),
		client.MatchingLabels{velerov1.RestoreUIDLabel: w.restore}); err != nil {
		return "", fmt.Errorf("list the PodVolumeRestores of Restore %s: %w", name, err)
	}
	k := podVolumeRestores()
	for i := range live.Items {
		if w.waitsFor(volume, newLoad(k, &live.Items[i])) {
			return "", nil
		}
	}
	return notRestored(volume, "the restore did not restore the pod with whose volumes it is restored"), nil
}

// tidy removes the marks that a pod has read from its volumes.
func (s *signals) tidy(pod *corev1.Pod, restore string) error {
	volumes, err := hostpath.Directories(s.HostPods, string(pod.UID))
	for _, volume := range volumes {
		remove := func(root *os.Root) error { return signal.Remove(root, restore) }
		if filepath.Base(volume.Path) == podclaims.WaitVolume { // the pod reads it again after a restart of its node
			remove = func(*os.Root) error { return nil }
		}
		if err := errors.Join(inside(volume, remove), volume.Close()); err != nil {
			s.Log.Warn("the directory .velero of a restore stays in a volume", "namespace", pod.Namespace, "pod", pod.Name,
				"volume", volume.Path, "error", err)
		}
	}
	return err
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
