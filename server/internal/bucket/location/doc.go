// Package location opens the stores of BackupStorageLocations and maintains their status.
//
// An Opener derives the configuration of the object store plugin from a location's spec and its Secrets, as Velero
// does, and opens the bucket through the plugin host. The Reconciler validates locations at intervals and ensures that
// at most one is the default.
//
// The package may import controller-runtime, server/internal/bucket/store, the hub of object stores and framework/api.
// It accesses the plugin host only through the interface Host, see host.go. Start with opener.go.
package location
