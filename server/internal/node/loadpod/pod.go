package loadpod

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

const containerName = "move"

// Labels of the pods.
const (
	// loadLabel of a pod that moves a load is the UID of the load.
	loadLabel = "cleat.dev/load"
	// kindLabel of a pod that moves a load is the kind of the load.
	kindLabel = "cleat.dev/load-kind"
)

// grace is how many seconds a program may take, after its pod was deleted, to keep what it has stored.
const grace = 40

// agentContainer returns the container of the agent in its pod, and the index of "server" in its arguments.
func agentContainer(agent *corev1.Pod) (c *corev1.Container, verb int, err error) {
	for i := range agent.Spec.Containers {
		c := &agent.Spec.Containers[i]
		for at := 1; at < len(c.Args); at++ {
			if c.Args[at-1] == "node-agent" && c.Args[at] == "server" {
				return c, at, nil
			}
		}
	}
	return nil, 0, errors.New(`no container of the agent's pod has the arguments "node-agent server"`)
}

// pod describes the pod of an attempt. It is the pod of the agent, with the resources and labels of the ConfigMap, on
// the same node, without what belongs to a server: probes, ports and other containers.
func (p *Pods) pod(order *Order) (*corev1.Pod, error) {
	of, verb, err := agentContainer(p.Agent)
	if err != nil {
		return nil, err
	}
	resources, err := p.Settings.PodResources.Requirements()
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, p.Settings.PodLabels)
	labels[loadLabel], labels[kindLabel] = order.UID, order.Kind
	labels[velerov1.ExcludeFromBackupLabel] = "true"

	c := of.DeepCopy()
	c.Name, c.Resources = containerName, resources
	c.Args = slices.Concat(c.Args[:verb], []string{"move"}, c.Args[verb+1:], order.Args())
	c.Ports, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil, nil
	c.TerminationMessagePath, c.TerminationMessagePolicy = MessagePath, corev1.TerminationMessageReadFile
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: progressVolume, MountPath: ProgressDir})

	spec := p.Agent.Spec.DeepCopy()
	spec.Containers, spec.EphemeralContainers = []corev1.Container{*c}, nil
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: progressVolume,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.TerminationGracePeriodSeconds = new(int64(grace))
	spec.NodeName, spec.NodeSelector, spec.TopologySpreadConstraints = "", nil, nil
	spec.Affinity = onNode(p.Agent.Spec.NodeName)
	spec.PriorityClassName, spec.Priority, spec.PreemptionPolicy = p.Settings.PriorityClassName, nil, nil
	usePulled(spec.InitContainers)
	usePulled(spec.Containers)
	if p.Settings.PrivilegedFsBackup && strings.HasPrefix(order.Kind, "PodVolume") {
		privilege(&spec.Containers[0])
	}
	p.giveCache(spec, order)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: maps.Clone(p.Settings.PodAnnotations)},
		Spec:       *spec,
	}, nil
}

// privilege has a container run privileged.
func privilege(c *corev1.Container) {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = new(true), nil
}

// defaultCacheMB is how many MB Velero's cache of a repository has if its settings do not say it.
const defaultCacheMB = 5000

// CanCache reports whether caches of data movers are on a volume of the agent's pod, which cachePVC can replace.
func (p *Pods) CanCache() bool {
	c, _, err := agentContainer(p.Agent)
	return err == nil && p.stateVolume(c) != ""
}

// stateVolume returns the name of the volume at StateDir, "" if there is none.
func (p *Pods) stateVolume(c *corev1.Container) string {
	for _, mount := range c.VolumeMounts {
		if mount.MountPath == p.StateDir {
			return mount.Name
		}
	}
	return ""
}

// giveCache puts the caches of a restore on a volume of the storage class of cachePVC, which the pod owns. Its size is
// that of Velero's: a fifth more than the limit of the cache, in whole GiB.
func (p *Pods) giveCache(spec *corev1.PodSpec, order *Order) {
	cache := p.Settings.CachePVC
	if cache == nil || order.Kind != "PodVolumeRestore" && order.Kind != "DataDownload" ||
		order.Bytes > 0 && order.Bytes < cache.ResidentThresholdInMB<<20 {
		return
	}
	name, limit := p.stateVolume(&spec.Containers[0]), cmp.Or(p.CacheLimitMB, defaultCacheMB)<<20
	for i := range spec.Volumes {
		if spec.Volumes[i].Name != name {
			continue
		}
		size := resource.NewQuantity((limit*12/10+1<<30-1)>>30<<30, resource.BinarySI)
		spec.Volumes[i].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{velerov1.ExcludeFromBackupLabel: "true"}},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &cache.StorageClass,
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *size}},
				},
			},
		}}
	}
}

// usePulled has containers use the images that the pod of the agent has pulled.
func usePulled(containers []corev1.Container) {
	for i := range containers {
		if containers[i].ImagePullPolicy == corev1.PullAlways {
			containers[i].ImagePullPolicy = corev1.PullIfNotPresent
		}
	}
}

// onNode returns the affinity to a node by its name. The scheduler places the pod, so that it waits for resources, or
// gets them by its priority.
func onNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
			}},
		}}},
	}}
}

// Remedy tells how to give the pods more memory.
func (p *Pods) Remedy() string {
	now := p.Settings.PodResources.MemoryLimit
	of := fmt.Sprintf("of the ConfigMap %s/%s", p.Cluster.Namespace, p.ConfigMap)
	if p.ConfigMap == "" {
		of = "of the ConfigMap that --node-agent-configmap names"
	}
	if now == "" {
		return fmt.Sprintf("its pod has no limit, so the node itself has too little memory; set podResources.memoryRequest "+
			"%s, so that pods go where they have enough", of)
	}
	return fmt.Sprintf("raise podResources.memoryLimit %s, which is %s, and restart the node agents", of, now)
}
