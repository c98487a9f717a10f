// Package expose makes the volumes of DataUploads and DataDownloads accessible to the agent of some node: it implements
// node.Exposer. All objects that it creates have the name of the load:
//
//	uploads.go    a volume made of the snapshot: VolumeSnapshotContent, VolumeSnapshot, claim, pod
//	downloads.go  an empty volume like the one that is restored: claim, pod
//	handover.go   the restored volume becomes that of the target claim
//	copies.go     Secrets and ConfigMaps that the driver needs beside the claim
//
// Claims and pods belong to the load (objects.go); pods only hold the volume (pod.go). Each call reads the existing
// objects and creates the missing ones, one write after the other, so a process may be killed at any point.
//
// The package imports nodeagent for its errors, settings, run and csisnapshots. Start
// reading at Uploads.Expose.
package expose
