package kubeapi

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NeededMemory reports whether a container has ended because it needed more memory than its limit: while its program
// ran, or before, if the error of the runtime is one that runc returns for that.
func NeededMemory(end *corev1.ContainerStateTerminated) bool {
	return end.Reason == "OOMKilled" || NotStarted(end) && (strings.Contains(end.Message, "OOM-killed") ||
		strings.Contains(end.Message, "unable to set memory limit"))
}

// NotStarted reports whether the runtime could not start the program of a container. The message is the runtime's then.
func NotStarted(end *corev1.ContainerStateTerminated) bool { return end.Reason == "StartError" }
