package v1

// Volume is the volume to read or to write.
type Volume struct {
	// Path is absolute: that of a directory, or of a block device.
	Path string
	// Block is set if Path is a block device, whose content is moved as one file.
	Block bool
}

// Requesters of backups.
const (
	// PodVolume is the requester of a volume that is read in its pod, for a PodVolumeBackup.
	PodVolume = "snapshot-pod-volume"
	// DataUpload is the requester of a snapshot of a volume that is moved, for a DataUpload.
	DataUpload = "snapshot-data-upload-download"
)

// Source is what the volume of a Backup belongs to. Movers that keep the backups of one volume together recognise it by
// these names. Each field may be empty.
type Source struct {
	// Requester is what has requested the backup, such as PodVolume or DataUpload. Its values are Velero's.
	Requester string
	// Namespace is that of the pod or of the claim.
	Namespace string
	// Pod is the name of the pod; empty unless the volume is read in its pod.
	Pod string
	// Volume is the name of the volume in the pod.
	Volume string
	// Claim is the name of the PersistentVolumeClaim; empty for a volume without one.
	Claim string
}

// Progress is how far a call is. The host shows numbers that decrease as the highest so far.
type Progress struct {
	// DoneBytes of TotalBytes are done; TotalBytes is 0 while it is not known. Neither is negative.
	DoneBytes  int64
	TotalBytes int64
	// DoneFiles of TotalFiles are done; TotalFiles is 0 while it is not known. Neither is negative.
	DoneFiles  int64
	TotalFiles int64
	// Activity is what happens now, for people: one line of at most 1024 bytes; may be empty. The host shows one that
	// begins with Waiting as the reason why a load moves no data.
	Activity string
}

// Waiting is how an activity begins that is none.
const Waiting = "waiting"
