package expose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/spec/podspec"
)

// Names in a pod that holds a volume. The process in the pod does not use the paths.
const (
	containerName = "holder"
	volumeName    = "volume"
	mountPath     = "/volume"
	devicePath    = "/dev/volume"
)

// nobody is the user of the process in a pod that holds a volume.
const nobody int64 = 65534

// holder describes a pod that holds a volume.
type holder struct {
	label, group, name string
	claim              *corev1.PersistentVolumeClaim
	node               string               // on which it has to run; "" for any
	topology           *corev1.NodeSelector // nodes that can access the volume; nil for all
	readOnly           bool
	unlabelled         bool // the files of the volume keep their SELinux labels
}

// pod describes a pod that holds a volume on a node until it is deleted. The agent of the node opens the volume where
// the kubelet mounts it.
func (v *Volumes) pod(h holder) *corev1.Pod {
	labels := maps.Clone(v.Settings.PodLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[h.label], labels[velerov1.ExposerPodGroupLabel] = h.name, h.group
	resources, _ := v.Settings.PodResources.Requirements() // errors were found when the settings were read
	class := ""
	if h.claim.Spec.StorageClassName != nil {
		class = *h.claim.Spec.StorageClassName
	}
	container := corev1.Container{
		Name: containerName, Image: v.Agent.Spec.Containers[0].Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/cleat"}, Args: []string{"node-agent", "hold"}, Resources: resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"},
			},
		},
	}
	if mode := h.claim.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		container.VolumeDevices = []corev1.VolumeDevice{{Name: volumeName, DevicePath: devicePath}}
	} else {
		container.VolumeMounts = []corev1.VolumeMount{{Name: volumeName, MountPath: mountPath, ReadOnly: h.readOnly}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: maps.Clone(v.Settings.PodAnnotations)},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{container},
			Volumes: []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: h.claim.Name, ReadOnly: h.readOnly},
			}}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(nobody), RunAsGroup: new(nobody), SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeRuntimeDefault,
				},
			},
			ServiceAccountName: v.Agent.Spec.ServiceAccountName, AutomountServiceAccountToken: new(false),
			EnableServiceLinks: new(false),
			ImagePullSecrets:   v.Agent.Spec.ImagePullSecrets, Tolerations: podspec.Tolerations(v.Agent),
			PriorityClassName:             v.Settings.PriorityClassName,
			TerminationGracePeriodSeconds: new(int64),
			OS:                            &corev1.PodOS{Name: corev1.Linux},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{velerov1.ExposerPodGroupLabel: h.group}},
			}},
		},
	}
	if h.unlabelled {
		pod.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	}
	if h.node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: h.node}
		return pod
	}
	pod.Spec.Affinity = podspec.Affinity(v.Settings.Affinity(class))
	if h.topology != nil && len(h.topology.NodeSelectorTerms) > 0 {
		nodes := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		configured := nodes.NodeSelectorTerms[0].MatchExpressions
		nodes.NodeSelectorTerms = h.topology.DeepCopy().NodeSelectorTerms
		for i := range nodes.NodeSelectorTerms {
			term := &nodes.NodeSelectorTerms[i]
			term.MatchExpressions = append(term.MatchExpressions, configured...)
		}
	}
	return pod
}

// agentPatience is how long the node of a pod that holds a volume may have no pod of an agent: the node may be new, or the
// agent may be replaced.
const agentPatience = time.Minute

// attended returns an error that ends the load of a pod that runs on a node without an agent, so that nobody opens its
// volume.
func (v *Volumes) attended(ctx context.Context, pod *corev1.Pod) error {
	var agents corev1.PodList
	if err := v.Cluster.Live.List(ctx, &agents, client.InNamespace(pod.Namespace),
		client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role},
		client.MatchingFields{"spec.nodeName": pod.Spec.NodeName}); err != nil {
		return fmt.Errorf("list the node agents of node %s: %w", pod.Spec.NodeName, err)
	}
	if slices.ContainsFunc(agents.Items, func(agent corev1.Pod) bool { return !nodeagents.IsVelero(&agent) }) {
		v.unattended.Delete(pod.UID)
		return nil
	}
	since, _ := v.unattended.LoadOrStore(pod.UID, time.Now())
	if at, ok := since.(time.Time); ok && time.Since(at) < agentPatience {
		return nil
	}
	v.unattended.Delete(pod.UID)
	return &node.Final{Err: fmt.Errorf("pod %s, which exposes the volume, runs on node %s, where no node agent runs; see "+
		"whether loadAffinity of the ConfigMap of the node agents and the DaemonSet select the same nodes", pod.Name,
		pod.Spec.NodeName)}
}

// state returns nil for a pod that holds its volume. Otherwise the error is Pending. A pod that has ended, because its
// node was short of memory, for instance, is deleted, so that the next call creates another one.
func (v *Volumes) state(ctx context.Context, o owner, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) error {
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return v.attended(ctx, pod)
	case corev1.PodFailed, corev1.PodSucceeded:
		if err := v.remove(ctx, o, pod); err != nil {
			return err
		}
		return node.Pending(fmt.Sprintf("pod %s, which exposed the volume, has ended as %s: %s %s", pod.Name,
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message))
	default:
	}
	why := ""
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			why += ", it is not scheduled: " + condition.Message
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			why += ", its container waits: " + strings.TrimSpace(waiting.Reason+" "+waiting.Message)
		}
	}
	if claim.Spec.VolumeName == "" {
		why += fmt.Sprintf(", volume claim %s has no volume yet", claim.Name)
	}
	return node.Pending(fmt.Sprintf("pod %s, which exposes the volume, is not running%s", pod.Name, why))
}
