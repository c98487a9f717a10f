// Package verification signs the checksums of backups, and verifies backups: when people ask for it, after they ended,
// and at intervals. What is known of the verifications of a backup is in its annotation, so that another server goes
// on.
//
// The package may import run, metrics, the rooms below control and the client of controller-runtime. Start reading at
// controller.go; sign.go makes the checksums, keys.go finds the keys, and volumes.go looks at the snapshots of volumes.
package verification
