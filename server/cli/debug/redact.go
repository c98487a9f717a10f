package debug

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// redacted stands for a value that is left out.
const redacted = "(left out)"

// secret matches the names of settings whose values are left out.
var secret = regexp.MustCompile(`(?i)(secret|password|passwd|token|credential|private|accesskey|access_key|apikey)`)

// redactSettings returns settings of a plugin without secrets.
func redactSettings(settings map[string]string) map[string]string {
	kept := make(map[string]string, len(settings))
	for key, value := range settings {
		if secret.MatchString(key) {
			value = redacted
		}
		kept[key] = value
	}
	return kept
}

// redactObject leaves secrets out of a custom resource: settings of plugins that look like some, and signed URLs.
func redactObject(object any) {
	switch o := object.(type) {
	case *velerov1.BackupStorageLocation:
		o.Spec.Config = redactSettings(o.Spec.Config)
	case *velerov1.VolumeSnapshotLocation:
		o.Spec.Config = redactSettings(o.Spec.Config)
	case *velerov1.DownloadRequest:
		if o.Status.DownloadURL != "" {
			o.Status.DownloadURL = redacted
		}
	}
}

// redactPod leaves the values of variables out of the containers of a pod.
func redactPod(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for v := range containers[i].Env {
				if containers[i].Env[v].Value != "" {
					containers[i].Env[v].Value = redacted
				}
			}
		}
	}
}
