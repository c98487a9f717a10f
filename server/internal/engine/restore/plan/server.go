package plan

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

var (
	leasesResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	crdsResource   = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

	configMapsResource = schema.GroupResource{Resource: "configmaps"}
)

// stateLabels begins the labels of the ConfigMaps in which a server records operations, snapshots and volumes.
const stateLabels = "cleat.dev/"

// orders returns the resources whose objects a server carries out once each. A restored object is new to the server,
// so that it would delete a backup again or move data again. DataUploads are not included, because actions convert
// them.
func orders() []string {
	return []string{
		"deletebackuprequests", "downloadrequests", "serverstatusrequests",
		"podvolumebackups", "podvolumerestores", "datadownloads",
	}
}

// BelongsToServer reports whether objects of a resource are never restored into a namespace because a server would act
// on them, keeps its state in them, or depends on them. In every namespace these are orders, backups and restores. In
// the namespace of the server that restores, these are also leases and all custom resources of a server, except those
// that the restore includes by name.
func (s *Selection) BelongsToServer(gr schema.GroupResource, namespace string) bool {
	switch {
	case gr == leasesResource:
		return namespace == s.server
	case gr.Group != velerov1.SchemeGroupVersion.Group || isRequired(gr):
		return false
	case !RestoredByName(gr):
		return true
	}
	return namespace == s.server && !slices.Contains(s.resolved.Load().resources.Includes(), gr.String())
}

// RestoredByName reports whether objects of a resource are restored into the namespace of the server that restores if
// the restore includes the resource by name: Schedules would create backups there, and the server would write to
// locations.
func RestoredByName(gr schema.GroupResource) bool {
	return gr.Group == velerov1.SchemeGroupVersion.Group && !slices.Contains(orders(), gr.Resource) &&
		!IsNonRestorable(gr) && !isRequired(gr)
}

// IsServerState reports whether an object, which is to be written into a namespace, is never restored because of its
// kind, its name and its labels: a server that restores would mistake it for one of its own records.
func (s *Selection) IsServerState(gr schema.GroupResource, namespace string, meta item.Meta) bool {
	if s.BelongsToServer(gr, namespace) || gr == dataUploadsResource {
		return true
	}
	if gr != configMapsResource || namespace != s.server {
		return false
	}
	for label := range meta.Labels {
		if strings.HasPrefix(label, stateLabels) || label == velerov1.ResourceUsageLabel ||
			label == velerov1.DataUploadSnapshotInfoLabel {
			return true
		}
	}
	return meta.Name == configmap.Ledger
}

// IsServerDefinition reports whether an object defines custom resources of the server. The cluster's definition may be
// newer than the one of the backup.
func IsServerDefinition(gr schema.GroupResource, name string) bool {
	return gr == crdsResource && strings.HasSuffix(name, "."+velerov1.SchemeGroupVersion.Group)
}

// IsNonRestorable reports whether objects of a resource are never restored; see NonRestorableResources.
func IsNonRestorable(gr schema.GroupResource) bool {
	return slices.Contains(NonRestorableResources(), gr.String())
}
