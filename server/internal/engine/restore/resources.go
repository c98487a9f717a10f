package restore

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Resources that are treated specially.
var (
	crdsResource            = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	namespacesResource      = schema.GroupResource{Resource: "namespaces"}
	podsResource            = schema.GroupResource{Resource: "pods"}
	jobsResource            = schema.GroupResource{Group: "batch", Resource: "jobs"}
	secretsResource         = schema.GroupResource{Resource: "secrets"}
	apiServicesResource     = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
	configMapsResource      = schema.GroupResource{Resource: "configmaps"}
	serviceAccountsResource = schema.GroupResource{Resource: "serviceaccounts"}
	volumesResource         = schema.GroupResource{Resource: "persistentvolumes"}
	claimsResource          = schema.GroupResource{Resource: "persistentvolumeclaims"}
	csiSnapshotsResource    = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}
	csiContentsResource     = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}
	dataUploadsResource     = schema.GroupResource{Group: velerov1.SchemeGroupVersion.Group, Resource: "datauploads"}
)
