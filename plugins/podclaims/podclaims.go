// Package podclaims says which PersistentVolumeClaim a volume of a pod has, for the built-in actions and the server.
//
// The package imports the API of the core group only.
package podclaims

import corev1 "k8s.io/api/core/v1"

// Name returns the name of the claim of a volume of a pod, "" if it has none. The claim of a generic ephemeral volume is made for the pod and
// belongs to it.
func Name(pod string, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod + "-" + volume.Name
	}
	return ""
}
