// Package volumes has what the server does about the data of volumes beside the calls of actions, behind one Hub. Start
// reading at Hub. Its verbs, in the order in which a volume meets them:
//
//   - Begin returns what takes the snapshots of a backup by the plugins of VolumeSnapshotLocations (Taker). A snapshot
//     costs money and is found by its id only, so Records has a durable note of each one from before it is requested
//     until the backup that has it is stored. Infos collects what the files of the backup say about its volumes.
//   - HandOver deletes the snapshots on record that no backup has, when a run has ended, and then the records.
//   - Settle completes those files when the operations of the backup have ended, and Keep leaves the CSI snapshots of
//     the backup to the storage system.
//   - RestoredFrom returns of what the volumes of a restore were made, and SettleRestored waits for their claims. The
//     volumes that a restore makes of snapshots are on record, too (Volume).
//   - Remove deletes the snapshots and the data in repositories of a backup that is deleted.
//
// Each of them can be repeated. Velero's files of volumes are in files.go.
//
// The package imports the layout of buckets, the hub of snapshotters, and types of custom resources.
package volumes
