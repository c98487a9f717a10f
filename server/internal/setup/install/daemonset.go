package install

import (
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework/nodeagents"
)

// DaemonSetName is the name of the DaemonSet of the node agents, and the label of their pods.
const DaemonSetName = "node-agent"

// KubeletRoot is where the kubelet has its files on most nodes.
const KubeletRoot = "/var/lib/kubelet"

// NodeAgents returns the DaemonSet of the node agents, whose pods run with an existing service account.
func NodeAgents(o *Options, serviceAccount string) *appsv1.DaemonSet {
	return daemonSet(o, serviceAccount)
}

// daemonSet returns the DaemonSet of the node agents. Its names, labels, paths and variables are Velero's.
func daemonSet(o *Options, serviceAccount string) *appsv1.DaemonSet {
	agent := o.NodeAgent
	args := append([]string{"node-agent", "server"}, agent.Args...)
	if o.Namespaces != nil {
		args = append(args, "--volume-namespaces="+strings.Join(o.Namespaces, ","))
	}
	c := container(o, DaemonSetName, agent.Resources, args)
	c.SecurityContext = &corev1.SecurityContext{
		Privileged:             new(agent.Privileged),
		ReadOnlyRootFilesystem: new(true),
		SeccompProfile:         &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if !agent.Privileged {
		c.SecurityContext.AllowPrivilegeEscalation = new(false)
		c.SecurityContext.Capabilities = agentCapabilities()
		// runtimes' own ones deny mounts
		c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	c.Env = append(c.Env, fieldVariable("NODE_NAME", "spec.nodeName"), fieldVariable("POD_NAME", "metadata.name"))
	pod := corev1.PodSpec{
		ServiceAccountName: serviceAccount,
		NodeSelector:       map[string]string{corev1.LabelOSStable: "linux"},
		PriorityClassName:  agent.PriorityClassName,
		SecurityContext:    &corev1.PodSecurityContext{RunAsUser: new(int64(0))}, // reads and writes the files of all users
	}
	for _, mount := range []struct {
		name, of, at string
		readOnly     bool
	}{
		{"host-pods", "pods", "/host_pods", false},
		{"host-plugins", "plugins", path.Join(KubeletRoot, "plugins"), true}, // links to block devices lead there
	} {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: mount.name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path.Join(agent.KubeletRoot, mount.of)},
		}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: mount.name, MountPath: mount.at, ReadOnly: mount.readOnly,
			MountPropagation: new(corev1.MountPropagationHostToContainer),
		})
	}
	pod.Containers = []corev1.Container{c}
	selector := map[string]string{"name": DaemonSetName}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: objectMeta(o, DaemonSetName),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: podTemplate(o, map[string]string{"name": DaemonSetName, nodeagents.RoleLabel: nodeagents.Role,
				nodeagents.CleatLabel: "true"}, agent.Plugins, pod),
		},
	}
}

// agentCapabilities are what an agent needs to shut data movers off from its node (SYS_ADMIN, SYS_CHROOT), and what
// data movers need to read all files, and to restore them with their owners, modes and types.
func agentCapabilities() *corev1.Capabilities {
	return &corev1.Capabilities{
		Drop: []corev1.Capability{"ALL"},
		Add:  []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP", "SYS_ADMIN", "SYS_CHROOT"},
	}
}
