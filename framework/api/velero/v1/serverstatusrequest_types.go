package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerStatusRequest requests the version and the plugins of the server. The server deletes it one
// minute after answering it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ssr
type ServerStatusRequest struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec has no fields.
	// +optional
	Spec ServerStatusRequestSpec `json:"spec,omitempty"`

	// Status is the server's response.
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

// ServerStatusRequestSpec has no fields.
type ServerStatusRequestSpec struct{}

// ServerStatusRequestStatus is the server's response.
type ServerStatusRequestStatus struct {
	// Phase is the state of the request. Empty means New.
	// +optional
	Phase ServerStatusRequestPhase `json:"phase,omitempty"`

	// ProcessedTimestamp is when the request was answered, according to the server's clock.
	// +optional
	// +nullable
	ProcessedTimestamp *metav1.Time `json:"processedTimestamp,omitempty"`

	// ServerVersion is the version of the server.
	// +optional
	ServerVersion string `json:"serverVersion,omitempty"`

	// Plugins are the plugins of the server, with one entry for each name and kind.
	// +optional
	// +nullable
	Plugins []PluginInfo `json:"plugins,omitempty"`
}

// PluginInfo names a plugin.
type PluginInfo struct {
	// Name is the name of the plugin, e.g. velero.io/aws.
	Name string `json:"name"`

	// Kind is the kind of the plugin, e.g. ObjectStore.
	Kind string `json:"kind"`
}

// ServerStatusRequestPhase is the state of a ServerStatusRequest. The empty phase is the same as
// New.
//
// +kubebuilder:validation:Enum=New;Processed
type ServerStatusRequestPhase string

const (
	// ServerStatusRequestPhaseNew is a request that has not been answered yet.
	ServerStatusRequestPhaseNew ServerStatusRequestPhase = "New"

	// ServerStatusRequestPhaseProcessed is a request that has been answered.
	ServerStatusRequestPhaseProcessed ServerStatusRequestPhase = "Processed"
)
