// Package operations follows the asynchronous operations that the actions of plugins have started for backups and
// restores:
//
//   - backups.go: Backups from WaitingForPluginOperations to Finalizing; restores.go the same for Restores
//   - waiting.go: the common part: which operations there are, what is written about them, and when
//   - leftovers.go: cancels operations whose backup or restore was deleted, has failed, or has no record of them
//   - call.go: calls plugins about operations
//
// The state of an operation, and when it is polled, is in package operation; start reading there.
package operations
