// Package loadproof proves that a load, which is a PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload, was
// created on behalf of a backup or restore of the server. Labels and owner references prove nothing, because every user
// who may create a load can write them. Node agents refuse a load without a valid signature.
//
// An action that creates a load signs it with the key in the Backup or Restore that the server has called it with,
// after it has set everything but the status:
//
//	upload := &v2alpha1.DataUpload{ObjectMeta: …, Spec: …} // with a name, not generateName
//	if err := loadproof.KeyOf(input.Backup).Sign(upload); err != nil {
//		return nil, err
//	}
//
// The signature covers kind, namespace, name, the labels and annotations in signedLabels and signedAnnotations, and the
// spec without spec.cancel and without spec.pod.uid of a PodVolumeRestore, which its agent sets. Node agents sign the
// status that they write in the same way, so that the snapshot ids in it can be trusted. Each run has a key of its own:
// it is worth nothing for other runs.
//
// The key exists in the copy of the Backup or Restore for plugins only. Do not store or log it. A server without keys,
// such as Velero, calls without one; Sign then does nothing.
package loadproof
