package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerStatusRequest asks the server for its version and its plugins. The server deletes it one
// minute after it was answered.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ssr
type ServerStatusRequest struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is empty: there is one question only.
	// +optional
	Spec ServerStatusRequestSpec `json:"spec,omitempty"`

	// Status is the server's answer.
	// +optional
	Status ServerStatusRequestStatus `json:"status,omitempty"`
}

// ServerStatusRequestList is a list of ServerStatusRequests.
//
// +kubebuilder:object:root=true
type ServerStatusRequestList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the requests of the list.
	Items []ServerStatusRequest `json:"items"`
}

// ServerStatusRequestSpec is the question, which has no parameters.
type ServerStatusRequestSpec struct{}

// ServerStatusRequestStatus is the server's answer.
type ServerStatusRequestStatus struct {
	// Phase is the state of the request. Empty means New.
	// +optional
	Phase ServerStatusRequestPhase `json:"phase,omitempty"`

	// ProcessedTimestamp is when the request was answered, by the server's clock.
	// +optional
	// +nullable
	ProcessedTimestamp *metav1.Time `json:"processedTimestamp,omitempty"`

	// ServerVersion is the version of the server.
	// +optional
	ServerVersion string `json:"serverVersion,omitempty"`

	// Plugins are the plugins that the server knows, one entry for each name and kind.
	// +optional
	// +nullable
	Plugins []PluginInfo `json:"plugins,omitempty"`
}

// PluginInfo names a plugin.
type PluginInfo struct {
	// Name of the plugin, e.g. velero.io/aws.
	Name string `json:"name"`

	// Kind of the plugin, e.g. ObjectStore.
	Kind string `json:"kind"`
}

// ServerStatusRequestPhase is the state of a ServerStatusRequest. The empty phase is the same as
// New.
//
// +kubebuilder:validation:Enum=New;Processed
type ServerStatusRequestPhase string

const (
	// ServerStatusRequestPhaseNew is a request that was not answered yet.
	ServerStatusRequestPhaseNew ServerStatusRequestPhase = "New"

	// ServerStatusRequestPhaseProcessed is a request that was answered.
	ServerStatusRequestPhaseProcessed ServerStatusRequestPhase = "Processed"
)
