// Package location turns BackupStorageLocations into stores and keeps their status right.
//
// An Opener makes of a location's spec the configuration that its object store plugin gets (Velero's
// wire, "Config handed to Init"), Secrets included, and opens the bucket through the plugin host. The
// Reconciler validates locations when they are due, and sees to it that at most one is the default.
//
// It may import controller-runtime, server/store, the hub of object stores and framework/api. It knows
// the plugin host by the interface Host only. Start with opener.go.
package location
