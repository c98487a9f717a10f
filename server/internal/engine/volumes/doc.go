// Package volumes takes snapshots of persistent volumes with the plugins of VolumeSnapshotLocations, and knows
// Velero's files of them: volumesnapshots and volumeinfo. Start reading at Taker.Take.
//
// A snapshot costs money and is found by its id only, so Records keeps a durable note of each one from before it is
// requested until the backup that has it is stored. Whoever finds a note of a run that is over knows which snapshots
// nobody needs. There are such notes of the volumes that restores make of snapshots, too.
//
// The package imports hubs, the client of the API server, and types of custom resources.
package volumes
