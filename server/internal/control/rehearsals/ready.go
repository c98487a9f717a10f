package rehearsals

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// found is what has come up in the namespaces of a rehearsal.
type found struct {
	pods     []corev1.Pod
	notReady rehearsal.Items
}

// maxReason is the maximum length of a reason in bytes.
const maxReason = 500

// look finds out what has come up, and which workloads are not ready.
func (r *Controller) look(ctx context.Context, s state) (*found, error) {
	all := new(found)
	for _, source := range s.sources() {
		if err := r.lookInto(ctx, all, source, s.Namespaces[source]); err != nil {
			return nil, fmt.Errorf("look for the workloads in namespace %s: %w", s.Namespaces[source], err)
		}
	}
	return all, nil
}

func (r *Controller) lookInto(ctx context.Context, all *found, source, namespace string) error {
	w := workloads{source: source, into: all, owned: map[types.UID][]owned{}}
	in := client.InNamespace(namespace)
	for _, list := range []client.ObjectList{
		&w.pods, &w.replicaSets, &w.deployments, &w.statefulSets, &w.daemonSets, &w.controllers, &w.jobs,
	} {
		if err := r.Live.List(ctx, list, in); err != nil {
			return err
		}
	}
	w.index()
	w.judge()
	all.pods = append(all.pods, w.pods.Items...)
	return nil
}

// workloads are those of one namespace.
type workloads struct {
	source       string // the namespace in the backup
	into         *found
	pods         corev1.PodList
	replicaSets  appsv1.ReplicaSetList
	deployments  appsv1.DeploymentList
	statefulSets appsv1.StatefulSetList
	daemonSets   appsv1.DaemonSetList
	controllers  corev1.ReplicationControllerList
	jobs         batchv1.JobList

	owned map[types.UID][]owned // by the UID of the owner
}

// owned is an object of a workload that is not ready, or that has objects of its own.
type owned struct {
	uid    types.UID
	reason string // why it is not ready; "" if that is not known
}

func (w *workloads) index() {
	for i := range w.pods.Items {
		pod := &w.pods.Items[i]
		if owner := metav1.GetControllerOf(pod); owner != nil {
			w.owned[owner.UID] = append(w.owned[owner.UID], owned{pod.UID, prefixed("pod "+pod.Name, PodProblem(pod))})
		}
	}
	for i := range w.replicaSets.Items {
		set := &w.replicaSets.Items[i]
		if owner := metav1.GetControllerOf(set); owner != nil {
			reason := ""
			for _, c := range set.Status.Conditions {
				if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
					reason = c.Message
				}
			}
			w.owned[owner.UID] = append(w.owned[owner.UID], owned{set.UID, reason})
		}
	}
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + ": " + text
}

// because returns why what a workload owns is not ready.
func (w *workloads) because(owner types.UID) string {
	for _, one := range w.owned[owner] {
		if reason := cmp.Or(one.reason, w.because(one.uid)); reason != "" {
			return reason
		}
	}
	return ""
}

// judge records the workloads that are not ready.
func (w *workloads) judge() {
	for i := range w.deployments.Items {
		d := &w.deployments.Items[i]
		wanted, is := replicas(d.Spec.Replicas), d.Status.AvailableReplicas
		if is < wanted || d.Status.ObservedGeneration < d.Generation {
			w.notReady("deployments.apps", d, fmt.Sprintf("%d of %d replicas are available", is, wanted))
		}
	}
	for i := range w.statefulSets.Items {
		set := &w.statefulSets.Items[i]
		wanted, is := replicas(set.Spec.Replicas), set.Status.ReadyReplicas
		if is < wanted || set.Status.ObservedGeneration < set.Generation {
			w.notReady("statefulsets.apps", set, fmt.Sprintf("%d of %d replicas are ready", is, wanted))
		}
	}
	for i := range w.daemonSets.Items {
		set := &w.daemonSets.Items[i]
		wanted, is := set.Status.DesiredNumberScheduled, set.Status.NumberReady
		if is < wanted || set.Status.ObservedGeneration < set.Generation {
			w.notReady("daemonsets.apps", set, fmt.Sprintf("%d of %d pods are ready", is, wanted))
		}
	}
	for i := range w.replicaSets.Items {
		set := &w.replicaSets.Items[i]
		wanted, is := replicas(set.Spec.Replicas), set.Status.ReadyReplicas
		if metav1.GetControllerOf(set) == nil && (is < wanted || set.Status.ObservedGeneration < set.Generation) {
			w.notReady("replicasets.apps", set, fmt.Sprintf("%d of %d replicas are ready", is, wanted))
		}
	}
	for i := range w.controllers.Items {
		c := &w.controllers.Items[i]
		if wanted, is := replicas(c.Spec.Replicas), c.Status.ReadyReplicas; is < wanted {
			w.notReady("replicationcontrollers", c, fmt.Sprintf("%d of %d replicas are ready", is, wanted))
		}
	}
	for i := range w.jobs.Items {
		job := &w.jobs.Items[i]
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				w.notReady("jobs.batch", job, "it has failed: "+c.Message)
			}
		}
	}
	for i := range w.pods.Items {
		pod := &w.pods.Items[i]
		if problem := PodProblem(pod); problem != "" && metav1.GetControllerOf(pod) == nil {
			w.notReady("pods", pod, problem)
		}
	}
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func (w *workloads) notReady(resource string, object client.Object, reason string) {
	if why := w.because(object.GetUID()); why != "" {
		reason += "; " + why
	}
	w.into.notReady.Add(rehearsal.Item{Resource: resource, Namespace: w.source, Name: object.GetName(),
		Reason: shorten.Text(reason, maxReason)})
}

// PodProblem returns why a pod is not ready, or "" if it is, or has completed.
func PodProblem(pod *corev1.Pod) string {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return ""
	case corev1.PodFailed:
		return strings.TrimSuffix("it has failed: "+cmp.Or(pod.Status.Message, pod.Status.Reason), ": ")
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return ""
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return "it is not scheduled: " + cmp.Or(c.Message, c.Reason)
		}
	}
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		c := &statuses[i]
		switch state := c.State; {
		case state.Waiting != nil && state.Waiting.Reason != "PodInitializing":
			text := "container " + c.Name + ": " + cmp.Or(state.Waiting.Reason, "it waits")
			if state.Waiting.Message != "" {
				text += ": " + state.Waiting.Message
			}
			if last := c.LastTerminationState.Terminated; last != nil {
				text += fmt.Sprintf(" (it has ended with exit code %d)", last.ExitCode)
			}
			return text
		case state.Terminated != nil && state.Terminated.ExitCode != 0:
			return fmt.Sprintf("container %s has ended with exit code %d", c.Name, state.Terminated.ExitCode)
		case state.Running != nil && !c.Ready && i >= len(pod.Status.InitContainerStatuses):
			return "container " + c.Name + " is running and not ready"
		}
	}
	return fmt.Sprintf("it is %s", cmp.Or(pod.Status.Phase, corev1.PodPending))
}
