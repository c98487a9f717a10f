// Package nodeagents tells the pods of node agents apart: those of cleat, and those of Velero, which take every
// PodVolumeBackup and PodVolumeRestore of their namespace that concerns their node, whoever has created it. Item
// actions and the server use it, so that agents of both never work on the same load.
//
// The package imports the API of the core group only.
package nodeagents

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// RoleLabel of the pods of node agents is Role. Both servers find them by it.
	RoleLabel = "role"
	// Role is the value of RoleLabel.
	Role = "node-agent"
	// CleatLabel of the pods of cleat's agents is "true".
	CleatLabel = "cleat.dev/node-agent"
)

// IsVelero reports whether a pod, which has the label of node agents, is one of Velero's that runs or may yet run.
func IsVelero(pod *corev1.Pod) bool {
	if pod.Labels[RoleLabel] != Role || pod.Labels[CleatLabel] == "true" || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return serves(&c) })
}

// serves reports whether a container runs "node-agent server".
func serves(c *corev1.Container) bool {
	line := slices.Concat(c.Command, c.Args)
	at := slices.Index(line, "node-agent")
	return at >= 0 && at+1 < len(line) && line[at+1] == "server"
}

// FindVelero returns the first of some pods that is one of Velero's agents on a node, or on any node if node is empty;
// nil if there is none.
func FindVelero(pods []corev1.Pod, node string) *corev1.Pod {
	for i := range pods {
		if pod := &pods[i]; IsVelero(pod) && (node == "" || pod.Spec.NodeName == node) {
			return pod
		}
	}
	return nil
}
