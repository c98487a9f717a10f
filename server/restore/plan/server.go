package plan

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
)

var (
	leasesResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	crdsResource   = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// orders returns the resources of which a server carries out each object once. A restored object is new to the server,
// so that it would delete a backup again or move data again. DataUploads are not among them: actions turn them into
// something else.
func orders() []string {
	return []string{
		"deletebackuprequests", "downloadrequests", "serverstatusrequests",
		"podvolumebackups", "podvolumerestores", "datadownloads",
	}
}

// BelongsToServer reports whether an object is never restored because a server would act on it again, keeps its state in
// it, or lives on it: orders, backups and restores in every namespace, and the leases in the namespace of the server that
// restores.
func (s *Selection) BelongsToServer(e archive.Entry) bool {
	gr := e.GroupResource
	switch {
	case gr == leasesResource:
		return s.Target(e.Namespace) == s.server
	case gr.Group != velerov1.SchemeGroupVersion.Group:
		return false
	}
	return slices.Contains(orders(), gr.Resource) || isNonRestorable(gr)
}

// IsServerDefinition reports whether an object defines custom resources of the server. The cluster's definition may be newer
// than that of the backup.
func IsServerDefinition(gr schema.GroupResource, name string) bool {
	return gr == crdsResource && strings.HasSuffix(name, "."+velerov1.SchemeGroupVersion.Group)
}

func isNonRestorable(gr schema.GroupResource) bool {
	return slices.Contains(NonRestorableResources(), gr.String())
}
