package podvolumes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// startLimit is how long after the end of its loads a pod may still wait for its volumes.
	startLimit = 5 * time.Minute
	// longestReason bounds the last output of a container.
	longestReason = 300
)

// hasStarted reports whether the init container in which a pod waits for its volumes has ended. The loads have ended.
// Otherwise, it returns the reason why the pod waits, or why it cannot start.
func hasStarted(pod *corev1.Pod, loads []load, now time.Time) (started bool, waits, failed string) {
	wait := statusOf(pod)
	switch {
	case pod.Status.Phase == corev1.PodRunning, pod.Status.Phase == corev1.PodSucceeded, wait != nil &&
		wait.State.Terminated != nil && wait.State.Terminated.ExitCode == 0:
		return true, "", ""
	case pod.Status.Phase == corev1.PodFailed:
		return false, "", fmt.Sprintf("its data is restored, but pod %s/%s has failed before it used it: %s", pod.Namespace,
			pod.Name, stateOf(pod))
	}
	ended := endOf(loads)
	if wait != nil && (failsSince(wait.State.Terminated, ended) || failsSince(wait.LastTerminationState.Terminated,
		ended)) || now.Sub(ended) > startLimit {
		return false, "", fmt.Sprintf("its data is restored, but pod %s/%s does not start: %s; the ConfigMap of %s sets the "+
			"image, the resources and the security context of its init container", pod.Namespace, pod.Name, stateOf(pod),
			RestoreName)
	}
	return false, fmt.Sprintf("its data is restored, and pod %s/%s has not started yet: %s", pod.Namespace, pod.Name,
		stateOf(pod)), ""
}

// endOf returns when the last load has ended.
func endOf(loads []load) (ended time.Time) {
	for _, l := range loads {
		if at := l.status.CompletionTimestamp; at != nil && at.After(ended) {
			ended = at.Time
		}
	}
	return ended
}

// failsSince reports whether a container was started after a time, so that it has seen all volumes restored, and has
// failed. Times in statuses are whole seconds.
func failsSince(ended *corev1.ContainerStateTerminated, since time.Time) bool {
	return ended != nil && ended.ExitCode != 0 && ended.StartedAt.After(since.Truncate(time.Second))
}

func statusOf(pod *corev1.Pod) *corev1.ContainerStatus {
	at := slices.IndexFunc(pod.Status.InitContainerStatuses,
		func(s corev1.ContainerStatus) bool { return s.Name == waitContainer })
	if at < 0 {
		return nil
	}
	return &pod.Status.InitContainerStatuses[at]
}

// stateOf describes the state of a pod whose init container has not ended, for messages.
func stateOf(pod *corev1.Pod) string {
	if wait := statusOf(pod); wait != nil {
		text := "init container " + waitContainer + " runs"
		if s := wait.State.Waiting; s != nil {
			text = "init container " + waitContainer + " waits: " + reason(s.Reason, s.Message)
		}
		if s := cmp.Or(wait.State.Terminated, wait.LastTerminationState.Terminated); s != nil {
			text += fmt.Sprintf("; it has ended with status %d: %s", s.ExitCode, reason(s.Reason, s.Message))
		}
		return text
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "it is not scheduled: " + reason(c.Reason, c.Message)
		}
	}
	return "it is " + string(cmp.Or(pod.Status.Phase, corev1.PodPending))
}

// reason joins a reason and the end of a message.
func reason(reason, message string) string {
	message = strings.ToValidUTF8(strings.TrimSpace(message), "?")
	if long := len(message) - longestReason; long > 0 {
		message = "... " + strings.ToValidUTF8(message[long:], "")
	}
	return strings.TrimSuffix(strings.TrimPrefix(reason+": "+message, ": "), ": ")
}
