package install

import (
	"maps"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ConsoleName is the name of the Deployment and of the Service of the console, and their component label: clients take
// every Deployment with the label of the server for the server.
const ConsoleName = "cleat-console"

// Console describes the console in the cluster.
type Console struct {
	Hosts     []string // under which it is reached; empty for any
	TLSSecret string   // with tls.crt and tls.key; "" if a proxy in front has a certificate
}

const (
	consolePort = 8443
	consoleTLS  = "/tls"
	// accountDirectory has, in a pod without a token, the certificate of the API server alone.
	accountDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"
)

func consoleMeta(o *Options) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: ConsoleName,
		Labels: map[string]string{componentLabel: ConsoleName}}
}

// consoleService returns the Service of the console.
func consoleService(o *Options) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: consoleMeta(o),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: map[string]string{"deploy": ConsoleName},
			Ports: []corev1.ServicePort{{Name: "console", Port: consolePort, Protocol: corev1.ProtocolTCP,
				TargetPort: intstr.FromString("console")}},
		},
	}
}

// consoleDeployment returns the Deployment of the console. Its pod has no token: the console acts with those of
// requests. There is one pod, because the tokens of those who have signed in are in its memory.
func consoleDeployment(o *Options) *appsv1.Deployment {
	args := []string{"console", "--in-cluster"}
	for _, host := range o.Console.Hosts {
		args = append(args, "--host="+host)
	}
	scheme := corev1.URISchemeHTTP
	container := corev1.Container{
		Name: "console", Image: o.Image, ImagePullPolicy: PullPolicy(o.Image), Command: []string{"/velero"},
		Ports: []corev1.ContainerPort{{Name: "console", ContainerPort: consolePort, Protocol: corev1.ProtocolTCP}},
		Env:   []corev1.EnvVar{fieldVariable("VELERO_NAMESPACE", "metadata.namespace")},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "api-server", MountPath: accountDirectory, ReadOnly: true},
			{Name: temporaryVolume, MountPath: "/tmp"}}, // manifests of backups that somebody looks at
		SecurityContext: confined(),
	}
	pod := corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		NodeSelector:                 o.NodeSelector,
		Affinity:                     linuxOnly(),
		Tolerations:                  o.Tolerations,
		OS:                           &corev1.PodOS{Name: corev1.Linux},
		RestartPolicy:                corev1.RestartPolicyAlways,
		Volumes: []corev1.Volume{emptyVolume(temporaryVolume), {Name: "api-server", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, // every namespace has it
			}}}},
	}
	if secret := o.Console.TLSSecret; secret != "" {
		scheme = corev1.URISchemeHTTPS
		args = append(args, "--tls-cert-file="+path.Join(consoleTLS, corev1.TLSCertKey),
			"--tls-private-key-file="+path.Join(consoleTLS, corev1.TLSPrivateKeyKey))
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "tls",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}})
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: "tls", MountPath: consoleTLS, ReadOnly: true})
	}
	container.Args = args
	container.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: "/healthz", Port: intstr.FromString("console"), Scheme: scheme}}}
	pod.Containers = []corev1.Container{container}
	for _, name := range o.ImagePullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	podLabels := map[string]string{componentLabel: ConsoleName, "deploy": ConsoleName}
	maps.Copy(podLabels, o.PodLabels)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: consoleMeta(o),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"deploy": ConsoleName}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels}, Spec: pod},
		},
	}
}
