// Package nodeagents tells the pods of node agents apart: those of cleat, and those of Velero, which take every
// PodVolumeBackup and PodVolumeRestore of their namespace that concerns their node, whoever has created it. Item
// actions and the server use it, so that agents of both never work on the same load.
//
// The package imports the API of the core group only.
package nodeagents

import (
	"fmt"
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

// NotAtWork returns why none of cleat's agents among some pods is ready, with what to do; "" if one is. found reports
// whether one of them has a pod, or is being replaced.
func NotAtWork(pods []corev1.Pod, namespace string) (why string, found bool) {
	for i := range pods {
		if IsVelero(&pods[i]) {
			continue
		}
		if why, found = Unready(&pods[i]), true; why == "" {
			return "", true
		}
	}
	switch {
	case found:
		return "no node agent is at work; of the last one, " + why, true
	case len(pods) > 0:
		return fmt.Sprintf("namespace %s has node agents of Velero only; \"cleat takeover start\" replaces them", namespace),
			false
	}
	return None(namespace), false
}

// None returns the text for a namespace without node agents, with what to do.
func None(namespace string) string {
	return fmt.Sprintf("namespace %s has no node agents, which move the data of volumes; install them with cleat install "+
		"--use-node-agent", namespace)
}

// Unready returns why an agent is not ready, "" if it is.
func Unready(agent *corev1.Pod) string {
	name := agent.Namespace + "/" + agent.Name
	switch {
	case agent.DeletionTimestamp != nil:
		return fmt.Sprintf("its pod %s is being deleted", name)
	case agent.Status.Phase == corev1.PodRunning && !isUnready(agent):
		return ""
	default:
		return fmt.Sprintf("its pod %s is %s and not ready; kubectl describe pod and kubectl logs say why", name,
			agent.Status.Phase)
	}
}

func isUnready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	})
}
