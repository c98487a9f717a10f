// Package podclaims finds the PersistentVolumeClaim of a volume of a pod, and reports whether its data may be moved, for
// item actions and the server.
//
// The package imports the API of the core group only.
package podclaims

import corev1 "k8s.io/api/core/v1"

// Name returns the name of the claim of a volume of a pod, "" if it has none. The claim of a generic ephemeral volume
// is made for the pod and belongs to it.
func Name(pod string, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod + "-" + volume.Name
	}
	return ""
}

// WaitVolume is the name of the volume of a restored pod in which the node agent reports that the other volumes are
// restored.
const WaitVolume = "cleat-restore-wait"

// NeverMoved returns the reason why the data of a volume of a pod is never moved, "" if it can be.
func NeverMoved(volume *corev1.Volume) string {
	switch {
	case volume.Name == WaitVolume:
		return "it is that in which a restored pod learns that its volumes are restored"
	case volume.HostPath != nil:
		return "a hostPath belongs to the node"
	case volume.Secret != nil, volume.ConfigMap != nil, volume.Projected != nil, volume.DownwardAPI != nil:
		return "what is in it comes from objects of the cluster"
	}
	return ""
}
