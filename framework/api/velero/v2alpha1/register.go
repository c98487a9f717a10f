package v2alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// SchemeGroupVersion is the group and version under which AddToScheme registers the types.
var SchemeGroupVersion = schema.GroupVersion{Group: v1.GroupName, Version: "v2alpha1"}

// AddToScheme adds the kinds of this package, their lists and the meta types of the group (list, watch and delete
// options) to scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &DataDownload{}, &DataDownloadList{}, &DataUpload{}, &DataUploadList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
