// Package control holds the settings that all controllers share. The controllers are in the packages below it, one for
// each custom resource; they drive it from one phase to the next, and let the engines, the plugins and the object
// storage do the work:
//
//   - backupqueue: Backups from New to ReadyToStart
//   - backups: Backups from ReadyToStart to their end
//   - restores: Restores
//   - deletions: DeleteBackupRequests
//   - gc: Backups that have expired
//   - backupsync: BackupStorageLocations, whose backups it brings into the cluster
//   - schedules: Schedules
//   - requests: DownloadRequests and ServerStatusRequests
//
// What may follow what, and how it is written, is in package run; start reading there. metrics and validation are
// shared by several controllers; server/app makes the controllers.
package control
