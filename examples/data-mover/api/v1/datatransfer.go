package v1

import (
	_ "embed" // the definition

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/operations"
)

// Definition is the CustomResourceDefinition of DataTransfers, in YAML.
//
//go:embed mover.example.io_datatransfers.yaml
var Definition []byte

// GroupVersion is the group and version of DataTransfers.
var GroupVersion = schema.GroupVersion{Group: "mover.example.io", Version: "v1"}

// AddToScheme adds the types of this package to scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &DataTransfer{}, &DataTransferList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DataTransfer moves the data of one claim to the bucket or back, or deletes it from the bucket.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Direction",type=string,JSONPath=`.spec.direction`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claim.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.bytesDone`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.bytesTotal`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DataTransfer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is written by the plugin.
	Spec Spec `json:"spec"`
	// Status is written by the controller that works on the transfer.
	// +optional
	Status Status `json:"status,omitzero"`
}

// DataTransferList is a list of DataTransfers.
//
// +kubebuilder:object:root=true
type DataTransferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DataTransfer `json:"items"`
}

// New returns a DataTransfer to be created. Its name follows from the key, so a second creation fails because it
// exists.
func New(namespace string, spec Spec) *DataTransfer {
	return &DataTransfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: operations.ID(GroupVersion.Group, spec.Key),
			Labels: map[string]string{"velero.io/exclude-from-backup": "true"}, // backups must not include it
		},
		Spec: spec,
	}
}

// Deletion returns the Spec that deletes a snapshot of a claim.
func Deletion(claim Claim, snapshot string) Spec {
	return Spec{Direction: Delete, Claim: claim, Snapshot: snapshot, Key: "delete/" + snapshot}
}

// Direction is the kind of a transfer.
//
// +kubebuilder:validation:Enum=Backup;Restore;Delete
type Direction string

const (
	// Backup moves the data of the claim into a new snapshot.
	Backup Direction = "Backup"
	// Restore moves the data of the snapshot to the claim.
	Restore Direction = "Restore"
	// Delete deletes the snapshot.
	Delete Direction = "Delete"
)

// Spec describes the requested transfer. Only cancel can be changed.
//
// +kubebuilder:validation:XValidation:rule="self.direction == oldSelf.direction && self.claim == oldSelf.claim && self.snapshot == oldSelf.snapshot && self.key == oldSelf.key",message="only cancel can be changed"
type Spec struct {
	Direction Direction `json:"direction"`
	// Claim is the PersistentVolumeClaim whose data is moved. It need not exist.
	Claim Claim `json:"claim"`
	// Snapshot names the data in the bucket.
	// +kubebuilder:validation:Pattern=`^op-[0-9a-f]{32}$`
	Snapshot string `json:"snapshot"`
	// Key is the key under which the host has started the operation.
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
	// Cancel asks the controller to end the transfer.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// Claim names a PersistentVolumeClaim.
type Claim struct {
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Phase is the state of a transfer.
//
// +kubebuilder:validation:Enum=InProgress;Completed;Failed;Cancelled
type Phase string

const (
	// InProgress means that a controller has claimed the transfer. A transfer without a phase waits for a controller.
	InProgress Phase = "InProgress"
	// Completed means that everything was moved.
	Completed Phase = "Completed"
	// Failed means that the transfer has ended; the message has the reason.
	Failed Phase = "Failed"
	// Cancelled means that the transfer has ended because spec.cancel was set.
	Cancelled Phase = "Cancelled"
)

// Status is the progress of a transfer.
type Status struct {
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Holder is the controller that works on the transfer. Another takes over when the holder has not written for a lease.
	// +optional
	Holder string `json:"holder,omitempty"`
	// Attempts counts the controllers that have claimed the transfer.
	// +optional
	Attempts int64 `json:"attempts,omitempty"`
	// Prepared means that the directory of a restore was found empty, so its contents were restored.
	// +optional
	Prepared bool `json:"prepared,omitempty"`
	// Message describes the current step, or why the transfer has failed.
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	BytesDone int64 `json:"bytesDone,omitempty"`
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty"`
	// +optional
	FilesDone int64 `json:"filesDone,omitempty"`
	// +optional
	FilesTotal int64 `json:"filesTotal,omitempty"`
	// StartedAt is when the transfer was first claimed.
	// +optional
	StartedAt metav1.MicroTime `json:"startedAt,omitzero"`
	// UpdatedAt is when the status was last written.
	// +optional
	UpdatedAt metav1.MicroTime `json:"updatedAt,omitzero"`
}

// Ended reports whether the transfer has ended.
func (s *Status) Ended() bool {
	return s.Phase == Completed || s.Phase == Failed || s.Phase == Cancelled
}
