package install

import (
	"path"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	corev1 "k8s.io/api/core/v1"
)

// The repositories of images.
const (
	Image            = "ghcr.io/cleat-dev/cleat"        // of the server, which is the node agent, too
	KopiaMoverImage  = "ghcr.io/cleat-dev/cleat-kopia"  // of the data mover cleat.dev/kopia
	ResticMoverImage = "ghcr.io/cleat-dev/cleat-restic" // of the data mover cleat.dev/restic
)

// ImageOf returns the image of a repository that belongs to a version of the server: the newest one for a version that
// is no release, of which there is no image.
func ImageOf(repository, version string) string {
	if !IsRelease(version) {
		version = "latest"
	}
	return repository + ":" + version
}

// IsRelease reports whether images of a version are published: it is neither a build of a working tree nor one of a
// commit between two releases.
func IsRelease(version string) bool {
	return semver.IsValid(version) && semver.Build(version) == "" && !module.IsPseudoVersion(version)
}

// Beside returns the image that was built with another one: with the same tag, in the same place. It returns "" if the
// other one is not called "cleat", or is named by its digest.
func Beside(image, repository string) string {
	place, tag, tagged := strings.Cut(image, path.Base(Image)+":")
	if !tagged || place != "" && !strings.HasSuffix(place, "/") || strings.ContainsAny(tag, "/@") {
		return ""
	}
	return place + path.Base(repository) + ":" + tag
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
	// for that; with Namespaces, it needs AllVolumes.
	CSISnapshots bool
	// AllVolumes gives a server with Namespaces, and its node agents, the rights to change the persistent volumes and the
	// contents of CSI snapshots of all namespaces: Kubernetes has no narrower ones.
	AllVolumes bool

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
