package volumes

// RestoreVolumeInfo is an entry of the file volumeinfo of a restore: from what a volume was restored.
type RestoreVolumeInfo struct {
	PVCName           string        `json:"pvcName,omitempty"`
	PVCNamespace      string        `json:"pvcNamespace,omitempty"`
	PVName            string        `json:"pvName,omitempty"` // of the restored volume
	RestoreMethod     Method        `json:"restoreMethod,omitempty"`
	SnapshotDataMoved bool          `json:"snapshotDataMoved"`
	CSI               *CSIInfo      `json:"csiSnapshotInfo,omitempty"`
	DataMovement      *MovementInfo `json:"snapshotDataMovementInfo,omitempty"`
	Native            *NativeInfo   `json:"nativeSnapshotInfo,omitempty"`
	PodVolume         *PodInfo      `json:"pvrInfo,omitempty"`
}
