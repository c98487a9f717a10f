package itemname

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// shortNames are the names of Kubernetes' own resources that kubectl accepts besides plural and singular.
var shortNames = map[schema.GroupResource][]string{
	{Resource: "configmaps"}:             {"cm"},
	{Resource: "endpoints"}:              {"ep"},
	{Resource: "events"}:                 {"ev"},
	{Resource: "limitranges"}:            {"limits"},
	{Resource: "namespaces"}:             {"ns"},
	{Resource: "nodes"}:                  {"no"},
	{Resource: "persistentvolumeclaims"}: {"pvc"},
	{Resource: "persistentvolumes"}:      {"pv"},
	{Resource: "pods"}:                   {"po"},
	{Resource: "replicationcontrollers"}: {"rc"},
	{Resource: "resourcequotas"}:         {"quota"},
	{Resource: "serviceaccounts"}:        {"sa"},
	{Resource: "services"}:               {"svc"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: {"crd", "crds"},
	{Group: "apps", Resource: "daemonsets"}:                                {"ds"},
	{Group: "apps", Resource: "deployments"}:                               {"deploy"},
	{Group: "apps", Resource: "replicasets"}:                               {"rs"},
	{Group: "apps", Resource: "statefulsets"}:                              {"sts"},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:           {"hpa"},
	{Group: "batch", Resource: "cronjobs"}:                                 {"cj"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"csr"},
	{Group: "networking.k8s.io", Resource: "ingresses"}:                    {"ing"},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:              {"netpol"},
	{Group: "policy", Resource: "poddisruptionbudgets"}:                    {"pdb"},
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:              {"pc"},
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}:        {"vs"},
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotclasses"}:  {"vsclass", "vsclasses"},
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}: {"vsc", "vscs"},
	{Group: "storage.k8s.io", Resource: "storageclasses"}:                  {"sc"},
}

// BuiltIns returns the resources of Kubernetes itself, by which their names are understood without a cluster.
var BuiltIns = sync.OnceValue(func() *discovery.Snapshot {
	var kinds []schema.GroupVersionKind
	object := reflect.TypeFor[metav1.Object]()
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		if reflect.PointerTo(goType).Implements(object) {
			kinds = append(kinds, gvk)
		}
	}
	kinds = append(kinds,
		schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
		schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"},
		schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotClass"},
		schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContent"})
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	lists := make([]*metav1.APIResourceList, 0, len(kinds))
	for _, gvk := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		lists = append(lists, resourceList(gvk.GroupVersion(), plural.Resource, gvk.Kind, false))
	}
	return discovery.NewSnapshot(nil, lists)
})

// resourceList returns the answer of an API server that serves one resource.
func resourceList(gv schema.GroupVersion, plural, kind string, namespaced bool) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{{
		Name: plural, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"list", "create", "get", "delete"},
		ShortNames: shortNames[schema.GroupResource{Group: gv.Group, Resource: plural}],
	}}}
}
