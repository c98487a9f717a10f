package v1

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LoadPhase is the state of a load, which is the movement of one volume's data: of a PodVolumeBackup, PodVolumeRestore,
// DataUpload or DataDownload. The empty phase is the same as New.
//
//	New -> Accepted -> Prepared -> InProgress -> Completed
//
// A load that does not succeed ends Failed. One that is cancelled ends Canceled, after Canceling if somebody has begun
// to work on it. If the volume of a DataUpload or DataDownload is lost with its node, the load is New again.
//
// +kubebuilder:validation:Enum=New;Accepted;Prepared;InProgress;Canceling;Canceled;Completed;Failed
type LoadPhase string

const (
	// LoadPhaseNew is a load that no node agent has begun.
	LoadPhaseNew LoadPhase = "New"

	// LoadPhaseAccepted is a load whose volume is being made accessible.
	LoadPhaseAccepted LoadPhase = "Accepted"

	// LoadPhasePrepared is a load whose volume is accessible on a node, and which waits for a slot of that node.
	LoadPhasePrepared LoadPhase = "Prepared"

	// LoadPhaseInProgress is a load whose data is being moved.
	LoadPhaseInProgress LoadPhase = "InProgress"

	// LoadPhaseCanceling is a load whose work is being ended because of its spec.cancel.
	LoadPhaseCanceling LoadPhase = "Canceling"

	// LoadPhaseCanceled is a load that ended because of its spec.cancel.
	LoadPhaseCanceled LoadPhase = "Canceled"

	// LoadPhaseCompleted is a load whose data was moved.
	LoadPhaseCompleted LoadPhase = "Completed"

	// LoadPhaseFailed is a load that failed with status.message.
	LoadPhaseFailed LoadPhase = "Failed"
)

// IsNew reports whether no node agent has begun the load yet.
func (p LoadPhase) IsNew() bool {
	return p == "" || p == LoadPhaseNew
}

// Terminal reports whether the load has ended, with any result.
func (p LoadPhase) Terminal() bool {
	switch p {
	case LoadPhaseCanceled, LoadPhaseCompleted, LoadPhaseFailed:
		return true
	default:
		return false
	}
}

// LoadStatus is the part of the status that loads of all kinds share.
type LoadStatus struct {
	// Phase is the state of the load. Empty means New.
	// +optional
	Phase LoadPhase `json:"phase,omitempty"`

	// Message says why the load has failed or was cancelled, what one waits for whose data nobody moves yet, or why its
	// last attempt has ended. For a Completed one, it lists what could not be kept of the volume.
	// +optional
	Message string `json:"message,omitempty"`

	// AcceptedTimestamp is when the load was accepted.
	// +optional
	// +nullable
	AcceptedTimestamp *metav1.Time `json:"acceptedTimestamp,omitempty"`

	// StartTimestamp is when the movement of data began.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// CompletionTimestamp is when the load ended, with any result.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// Progress is how much of the data was moved.
	// +optional
	Progress LoadProgress `json:"progress,omitempty"`
}

// LoadProgress is how much of the data of a volume was moved.
type LoadProgress struct {
	// TotalBytes is the size of the data in bytes, as far as it is known.
	// +optional
	TotalBytes int64 `json:"totalBytes,omitempty"`

	// BytesDone is the number of bytes that were moved.
	// +optional
	BytesDone int64 `json:"bytesDone,omitempty"`
}

// Annotations of a load that describe its volume to the policy that decides when it may begin. Whoever creates the load
// sets them.
const (
	// LoadStorageClassAnnotation is the name of the storage class of the volume claim.
	LoadStorageClassAnnotation = "cleat.dev/storage-class"

	// LoadBytesAnnotation is the size of the volume in bytes, as a decimal number.
	LoadBytesAnnotation = "cleat.dev/volume-bytes"

	// LoadVolumesAnnotation lists the volumes of all loads of an operation, so that one that was deleted is missed.
	LoadVolumesAnnotation = "cleat.dev/volumes"
)

// LoadAttemptAnnotation of a load is the number of the attempt to move its data, "1" for the first. The node agent that
// begins an attempt writes it.
const LoadAttemptAnnotation = "cleat.dev/attempt"

// LoadInterruptionsAnnotation of a load is how many of its attempts do not count, because the agent or the pod that moved
// the data was ended from outside.
const LoadInterruptionsAnnotation = "cleat.dev/interruptions"

// Annotations that prove where a load comes from, see package framework/loadproof.
const (
	// LoadKeyAnnotation is the key with which the loads of a Backup or Restore are signed. Only the copy for plugins has
	// it, never the custom resource.
	LoadKeyAnnotation = "cleat.dev/load-key"

	// StoredVolumesAnnotation is, as a JSON object, which snapshot the backup has of each volume of the item that an
	// action restores: by the name of a pod's volume, or by the name of the claim. Only the copy of the Restore for
	// plugins has it.
	StoredVolumesAnnotation = "cleat.dev/stored-volumes"

	// SharedVolumesAnnotation is, as a JSON object, the names of other pods of the backup with which the restore restores
	// volumes of the pod that an action restores, by the name of the volume. Only the copy of the Restore for plugins has
	// it.
	SharedVolumesAnnotation = "cleat.dev/shared-volumes"

	// UploaderTypeAnnotation is the engine with which the volumes of a backup are stored, "kopia" or "restic". Only the
	// copy of the Backup for plugins has it.
	UploaderTypeAnnotation = "cleat.dev/uploader-type"

	// LoadSignatureAnnotation of a load is the signature of whoever has created it.
	LoadSignatureAnnotation = "cleat.dev/load-signature"

	// LoadStatusSignatureAnnotation of a load is the signature of the node agent that has written its status.
	LoadStatusSignatureAnnotation = "cleat.dev/status-signature"
)

// MoverSettings returns the settings of loads of a backup, with the names of Velero; nil if there are none. c may be
// nil.
func (c *UploaderConfigForBackup) MoverSettings() map[string]string {
	if c == nil || c.ParallelFilesUpload <= 0 {
		return nil
	}
	return map[string]string{"ParallelFilesUpload": strconv.Itoa(c.ParallelFilesUpload)}
}
