// Package podvolumes has the actions that back up and restore the volumes of pods from the file systems of their nodes.
// An action creates a PodVolumeBackup or PodVolumeRestore for each volume, which the agent of the node carries out, and
// reports their progress as one operation for the pod.
//
// The server decides which volumes of a pod are backed up. It lists them in the annotation
// backup.velero.io/backup-volumes of the pod as the action gets it.
//
// Names of custom resources follow from the key of the call, so an action that is asked again finds what it has
// created. What is in them is Velero's, so that either server restores what the other has backed up.
//
// Start reading at backup.go and restore.go. loads.go has what both have in common, agents.go says when nobody should
// wait for an agent any more, and start.go whether a restored pod goes past its init container.
package podvolumes
