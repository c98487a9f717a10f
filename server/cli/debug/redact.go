package debug

import (
	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/redact"
)

// redactObject removes values that are or may be secrets, whatever their form: signed URLs, and the values of variables
// and headers.
func redactObject(object any) {
	if o, ok := object.(*velerov1.DownloadRequest); ok && o.Status.DownloadURL != "" {
		o.Status.DownloadURL = redact.Left
	}
}

// redactPod leaves the values of variables, and of the headers of probes, out of the containers of a pod.
func redactPod(spec *corev1.PodSpec) {
	// which share their variables
	containers := append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...)
	for i := range spec.EphemeralContainers {
		containers = append(containers, corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for i := range containers {
		c := &containers[i]
		for v := range c.Env {
			if c.Env[v].Value != "" {
				c.Env[v].Value = redact.Left
			}
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if probe != nil {
				redactHeaders(probe.HTTPGet)
			}
		}
		if c.Lifecycle != nil {
			for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
				if handler != nil {
					redactHeaders(handler.HTTPGet)
				}
			}
		}
	}
}

func redactHeaders(get *corev1.HTTPGetAction) {
	if get == nil {
		return
	}
	for i := range get.HTTPHeaders {
		get.HTTPHeaders[i].Value = redact.Left
	}
}
