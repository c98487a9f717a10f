package install

import (
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	pluginsVolume     = "plugins"
	scratchVolume     = "scratch"
	temporaryVolume   = "tmp"
	credentialsVolume = credentialsName
	metricsPort       = 8085
)

// DeploymentName is the name of the Deployment of the server.
const DeploymentName = component

// deployment returns the Deployment of the server. Its names, labels, paths and variables are Velero's, on which
// clients, dashboards and plugins rely.
func deployment(o *Options, serviceAccount string) *appsv1.Deployment {
	selector := map[string]string{"deploy": component}
	pod := corev1.PodSpec{
		ServiceAccountName: serviceAccount,
		NodeSelector:       o.NodeSelector,
		Affinity:           o.Affinity,
		PriorityClassName:  o.PriorityClassName,
		Containers: []corev1.Container{container(o, component, o.Resources,
			append([]string{"server"}, o.ServerArgs...))},
	}
	pod.Containers[0].SecurityContext = confined()
	if pod.Affinity == nil {
		pod.Affinity = linuxOnly()
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(o, component),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: podTemplate(o, selector, o.Plugins, pod),
		},
	}
}

// podTemplate returns a template of pods of the server or of the node agents: a pod with the common settings added.
func podTemplate(o *Options, own map[string]string, plugins []string, pod corev1.PodSpec) corev1.PodTemplateSpec {
	podLabels, annotations := labels(o.PodLabels), map[string]string{
		"prometheus.io/scrape": "true", "prometheus.io/port": "8085", "prometheus.io/path": "/metrics",
	}
	maps.Copy(podLabels, own)
	maps.Copy(annotations, o.PodAnnotations)

	pod.OS, pod.RestartPolicy, pod.Tolerations = &corev1.PodOS{Name: corev1.Linux}, corev1.RestartPolicyAlways,
		o.Tolerations
	pod.Volumes = append([]corev1.Volume{emptyVolume(pluginsVolume), emptyVolume(scratchVolume),
		emptyVolume(temporaryVolume)}, pod.Volumes...)
	for _, name := range o.ImagePullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	for _, image := range plugins {
		pod.InitContainers = append(pod.InitContainers, PluginContainer(image, PullPolicy(image), pod.InitContainers))
	}
	if o.Secret != nil {
		mountCredentials(&pod)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels, Annotations: annotations}, Spec: pod}
}

// container returns a container that runs the program.
func container(o *Options, name string, resources corev1.ResourceRequirements, args []string) corev1.Container {
	c := corev1.Container{
		Name:            name,
		Image:           o.Image,
		ImagePullPolicy: PullPolicy(o.Image),
		Command:         []string{"/velero"},
		Args:            args,
		Ports:           []corev1.ContainerPort{{Name: "metrics", ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP}},
		Resources:       resources,
		Env: []corev1.EnvVar{
			{Name: "VELERO_SCRATCH_DIR", Value: "/scratch"}, fieldVariable("VELERO_NAMESPACE", "metadata.namespace"),
			{Name: "LD_LIBRARY_PATH", Value: "/plugins"},
		},
		VolumeMounts: []corev1.VolumeMount{
			pluginsMount(), {Name: scratchVolume, MountPath: "/scratch"},
			{Name: temporaryVolume, MountPath: "/tmp"}, // the sockets of plugins, and what these write
		},
	}
	if !movesMetrics(args) {
		c.LivenessProbe, c.ReadinessProbe = probe("/healthz"), probe("/readyz")
	}
	return c
}

// pluginsMount returns the mount of the plugin directory in a container that runs plugins. Only init containers write
// there.
func pluginsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: pluginsVolume, MountPath: "/plugins", ReadOnly: true}
}

// confined returns the security context of a container that writes to its volumes only, and can become nothing that it
// is not.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// fieldVariable returns a variable that has the value of a field of the pod.
func fieldVariable(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

// movesMetrics reports whether flags set the address of metrics and health.
func movesMetrics(args []string) bool {
	for _, arg := range args {
		if strings.HasPrefix(arg, "--metrics-address") {
			return true
		}
	}
	return false
}

// Readiness returns a probe that reports soon whether a program with some arguments is ready, nil if these set the
// address that it would ask.
func Readiness(args []string) *corev1.Probe {
	if movesMetrics(args) {
		return nil
	}
	p := probe("/readyz")
	p.HTTPGet.Port, p.PeriodSeconds = intstr.FromInt32(metricsPort), 5
	return p
}

func probe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("metrics")}},
		// A busy server, or one on a busy node, must not be restarted.
		PeriodSeconds: 30, TimeoutSeconds: 10, FailureThreshold: 5,
	}
}

// linuxOnly returns an affinity that keeps the server off nodes with Windows.
func linuxOnly() *corev1.Affinity {
	notWindows := corev1.NodeSelectorRequirement{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpNotIn,
		Values: []string{"windows"}}
	selector := &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{notWindows}}},
	}
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector},
	}
}

func emptyVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// mountCredentials mounts the Secret and names its file in the variables that the libraries of providers read.
func mountCredentials(pod *corev1.PodSpec) {
	const readable = 0o444
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: credentialsVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: credentialsName, DefaultMode: new(int32(readable))},
	}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: credentialsVolume, MountPath: "/credentials"})
	for _, name := range []string{"GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE",
		"AZURE_CREDENTIALS_FILE", "ALIBABA_CLOUD_CREDENTIALS_FILE"} {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: "/credentials/" + credentialsKey})
	}
}
