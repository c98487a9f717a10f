// Package csisnapshots manages the VolumeSnapshots that actions have made for backups and restores: it keeps or removes
// them when a run has ended, and hands their content over to a node agent, which makes a volume of it. It finds them by
// the labels that framework.RoleClaimSnapshots requires from any plugin.
//
// The package imports the API types and the client of the snapshot controller. Start reading at Snapshots.
package csisnapshots
