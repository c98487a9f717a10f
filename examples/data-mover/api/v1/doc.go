// Package v1 has the custom resource of the mover: one DataTransfer moves the data of one claim. Actions of the plugin
// create it, a controller does the work. Start reading at datatransfer.go.
//
// +kubebuilder:object:generate=true
// +groupName=mover.example.io
package v1
