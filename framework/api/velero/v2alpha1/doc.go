// Package v2alpha1 has the custom resources of group velero.io, version v2alpha1: DataUpload and DataDownload, with
// which the data of CSI snapshots is moved into a repository and back.
//
// The rules of package v1 hold: names and values are Velero's, and there is no status subresource. A DataUpload or
// DataDownload may be carried out by the controllers of a vendor, which spec.datamover then names.
//
// The package may only import package v1, k8s.io/apimachinery and the standard library. Start reading at
// dataupload_types.go.
//
// +kubebuilder:object:generate=true
// +groupName=velero.io
package v2alpha1
