package install

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The repositories of images.
const (
	Image            = "ghcr.io/cleat-dev/cleat"        // of the server, which is the node agent, too
	KopiaMoverImage  = "ghcr.io/cleat-dev/cleat-kopia"  // of the data mover cleat.dev/kopia
	ResticMoverImage = "ghcr.io/cleat-dev/cleat-restic" // of the data mover cleat.dev/restic
)

// ImageOf returns the image of a repository that belongs to a version of the server: the newest one for a version that
// is no release.
func ImageOf(repository, version string) string {
	if !strings.HasPrefix(version, "v") || strings.Contains(version, "+") {
		version = "latest"
	}
	return repository + ":" + version
}

// Options describe an installation. The caller has validated them.
type Options struct {
	Namespace string
	Image     string

	ImagePullSecrets          []string
	PodLabels, PodAnnotations map[string]string // in addition to the usual ones
	ServiceAccountName        string            // of an existing one; empty to create one that RBAC applies to
	ServiceAccountAnnotations map[string]string
	Resources                 corev1.ResourceRequirements
	NodeSelector              map[string]string
	Tolerations               []corev1.Toleration
	Affinity                  *corev1.Affinity // nil for the usual one
	PriorityClassName         string

	Plugins    []string // images
	ServerArgs []string // flags of "cleat server"
	Secret     []byte   // credentials of the object store and the snapshotter; nil for none

	BackupLocation   *BackupLocation   // nil for none
	SnapshotLocation *SnapshotLocation // nil for none

	// Namespaces are the namespaces that the server may back up and restore; nil makes it a cluster admin.
	Namespaces []string
	// CSISnapshots is true if the server takes snapshots of CSI volumes, whose data node agents may move. Both need rights
	// for that.
	CSISnapshots bool

	NodeAgent *NodeAgent // nil for none
	Console   *Console   // nil for none
}

// NodeAgent describes the agents of the nodes. Other settings are those of the server.
type NodeAgent struct {
	Plugins           []string // images; data movers are plugins
	Args              []string // flags of "cleat node-agent server"
	Resources         corev1.ResourceRequirements
	PriorityClassName string
	Privileged        bool
	KubeletRoot       string // directory of the kubelet on the nodes
}

// BackupLocation is the default backup storage location.
type BackupLocation struct {
	Provider, Bucket, Prefix string
	Config                   map[string]string
	CACert                   []byte
}

// SnapshotLocation is the default volume snapshot location.
type SnapshotLocation struct {
	Provider string
	Config   map[string]string
}
