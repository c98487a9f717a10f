package loadpod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// State is what a pod says about its attempt. At most one of the fields is set; none is while the data is moved.
type State struct {
	// Waits is why the program does not run yet.
	Waits string
	// Result is how the attempt has ended.
	Result *Result
}

// StateOf returns the state of the pod of an attempt.
func StateOf(pod *corev1.Pod, order *Order) State {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.Name == containerName && status.State.Terminated != nil {
			return State{Result: resultOf(pod, status.State.Terminated, order)}
		}
	}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return State{}
	case corev1.PodFailed, corev1.PodSucceeded: // its container did not even start
		r := lost(order, "its pod has ended: "+ended(pod))
		r.Interrupted = isInterrupted(pod)
		return State{Result: r}
	default:
		return State{Waits: fmt.Sprintf("pod %s, which is to move the data, is not running%s", pod.Name, waits(pod))}
	}
}

// resultOf returns how an attempt has ended whose container has ended.
func resultOf(pod *corev1.Pod, end *corev1.ContainerStateTerminated, order *Order) *Result {
	const killed = 137 // by SIGKILL
	r, err := parse(end.Message, order.ID())
	if err == nil && (!r.Lost || !kubeapi.NeededMemory(end)) {
		return r
	}
	why := fmt.Sprintf("its container has ended with exit code %d", end.ExitCode)
	switch {
	case kubeapi.NeededMemory(end):
		r = lost(order, "it was killed because it needed more memory than its limit")
		r.Memory = true
		return r
	case pod.Status.Reason != "": // by the kubelet
		r = lost(order, "its pod has ended: "+ended(pod))
		r.Interrupted = isInterrupted(pod)
		return r
	case end.ExitCode == killed && err != nil && end.Message == "" && limitsMemory(pod): // runtimes miss some for memory
		r = lost(order, "it was killed, perhaps because it needed more memory than its limit")
		r.Memory = true
		return r
	case kubeapi.NotStarted(end):
		why = "its container could not be started: " + end.Message
	case end.Message != "":
		why += ", and " + err.Error()
	}
	return lost(order, why)
}

// isInterrupted reports whether the kubelet has ended a pod for a reason that is not in the pod, such as the shutdown of
// the node. It evicts pods that need much of what is scarce.
func isInterrupted(pod *corev1.Pod) bool {
	return pod.Status.Reason != "" && pod.Status.Reason != "Evicted"
}

// limitsMemory reports whether the container has a limit of memory.
func limitsMemory(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == containerName && !c.Resources.Limits.Memory().IsZero()
	})
}

func lost(order *Order, why string) *Result { return &Result{ID: order.ID(), Error: why, Lost: true} }

// ended returns why a pod has ended.
func ended(pod *corev1.Pod) string {
	why := []string{string(pod.Status.Phase), pod.Status.Reason, pod.Status.Message}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if end := status.State.Terminated; end != nil && end.ExitCode != 0 {
			why = append(why, fmt.Sprintf("init container %s has ended with exit code %d: %s", status.Name, end.ExitCode,
				end.Message))
		}
	}
	return strings.Join(strings.Fields(strings.Join(why, " ")), " ")
}

// waits returns why a pod is not running.
func waits(pod *corev1.Pod) (why string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			why += ", it is not scheduled: " + condition.Message
		}
	}
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" {
			why += ", its container waits: " + strings.TrimSpace(waiting.Reason+" "+waiting.Message)
		}
	}
	return why
}
