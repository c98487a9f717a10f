package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
)

// Exposer makes the volumes of one kind of loads accessible on some node. It creates a pod with exactly one volume
// claim. The pod has the label of the kind, with the name of the load as its value. Calls are repeated, also by other
// agents after a crash, so they must be idempotent. They do not block: an error of type Pending states what the load
// waits for, and an error of type Final ends the load.
type Exposer interface {
	// Expose begins or continues to make the volume accessible. load is the custom resource, in phase Accepted.
	Expose(ctx context.Context, load client.Object) error
	// Moved reports whether a killed process had moved all data of the load and begun to hand over the volume.
	Moved(ctx context.Context, load client.Object) (bool, error)
	// Withdraw removes the pod of a load that goes back to New, so that Expose can begin again on any node.
	Withdraw(ctx context.Context, load client.Object) error
	// Release removes all objects that Expose has created. It is called before the end of a load is written. moved
	// reports whether the data of the load was moved, so that the volume of a restore can be handed over.
	Release(ctx context.Context, load client.Object, moved bool) error
}

// Pending is an error of an Exposer that needs no action except another call. Its text states what a load waits for.
type Pending string

func (p Pending) Error() string { return string(p) }

// Final is an error that ends a load.
type Final struct{ Err error }

func (f *Final) Error() string { return f.Err.Error() }

func (f *Final) Unwrap() error { return f.Err }

// restoreWait is the init container in which a restored pod waits for its volumes.
const restoreWait = "restore-wait"

// pod returns the pod on this node that uses or exposes the volume of a load, or nil if there is none yet.
func (a *Agent) pod(ctx context.Context, l *load) (*corev1.Pod, error) {
	if l.podLabel != "" {
		var list corev1.PodList
		err := a.List(ctx, &list, client.InNamespace(a.Namespace), client.MatchingLabels{l.podLabel: l.GetName()},
			client.UnsafeDisableDeepCopy)
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				return &list.Items[i], err
			}
		}
		return nil, err
	}
	var pod corev1.Pod
	err := a.Get(ctx, client.ObjectKey{Namespace: l.spec.pod.Namespace, Name: l.spec.pod.Name}, &pod)
	if apierrors.IsNotFound(err) || err == nil && l.spec.pod.UID != "" && pod.UID != l.spec.pod.UID {
		return nil, nil
	}
	return &pod, err
}

// waits reports whether the init container of a pod is waiting for the volumes.
func waits(pod *corev1.Pod) bool {
	for _, status := range pod.Status.InitContainerStatuses {
		if status.Name == restoreWait && status.State.Running != nil {
			return true
		}
	}
	return false
}

// exposedVolume is the open volume of a load, and where the kubelet has it. The zero value is none.
type exposedVolume struct {
	hostpath.Volume
	pod       types.UID
	directory string
}

// exposed opens the volume of a load, if that is possible on this node now. Otherwise wait states what the load waits
// for. After an error of type Final, the load cannot succeed.
func (a *Agent) exposed(ctx context.Context, l *load) (opened exposedVolume, wait string, err error) {
	pod, err := a.pod(ctx, l)
	if err != nil {
		return opened, "", err
	}
	if pod == nil || l.podLabel != "" && pod.Status.Phase != corev1.PodRunning {
		return opened, "its pod is not running on this node", nil
	}
	name := l.spec.volume
	if l.podLabel != "" {
		if name, err = onlyClaim(pod); err != nil {
			return opened, "", &Final{err}
		}
	}
	directory, err := a.directory(ctx, pod, name)
	if err != nil {
		return opened, "", err
	}
	found, err := hostpath.Find(a.HostPods, string(pod.UID), directory)
	if err != nil { // the kubelet may be about to mount it
		return opened, err.Error(), nil
	}
	return exposedVolume{found, pod.UID, directory}, "", nil
}

// onlyClaim returns the name of the volume with which a pod exposes the volume of a load.
func onlyClaim(pod *corev1.Pod) (string, error) {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			names = append(names, volume.Name)
		}
	}
	if len(names) != 1 {
		return "", fmt.Errorf("pod %s, which exposes the volume, has %d volume claims %q, want one", pod.Name, len(names),
			names)
	}
	return names[0], nil
}

// directory returns the name of the directory in which the kubelet mounts a volume of a pod: the name of its
// persistent volume, if it has one.
func (a *Agent) directory(ctx context.Context, pod *corev1.Pod, name string) (string, error) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Name != name {
			continue
		}
		claim := podclaims.Name(pod.Name, volume)
		if why := podclaims.NeverMoved(volume); why != "" {
			return "", &Final{fmt.Errorf("volume %s of pod %s/%s is neither backed up nor restored: %s", name, pod.Namespace,
				pod.Name, why)}
		}
		if claim == "" {
			return name, nil
		}
		var pvc corev1.PersistentVolumeClaim
		if err := a.Live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: claim}, &pvc); err != nil {
			return "", fmt.Errorf("get volume claim %s/%s: %w", pod.Namespace, claim, err)
		}
		if pvc.Spec.VolumeName == "" {
			return "", fmt.Errorf("volume claim %s/%s is not bound", pod.Namespace, claim)
		}
		return pvc.Spec.VolumeName, nil
	}
	return "", &Final{fmt.Errorf("pod %s/%s has no volume %s", pod.Namespace, pod.Name, name)}
}
