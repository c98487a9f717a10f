// Package forvelero serves asynchronous actions to stock Velero, which lacks their kinds: an adapter makes an
// AsyncBackupItemAction a BackupItemAction v2, and an AsyncRestoreItemAction a RestoreItemAction v2. So one
// implementation runs in both servers. Register it twice, directly and with an adapter:
//
//	framework.Serve(
//		abiav1.Register("example.io/mover", newMover),
//		forvelero.AsyncBackupItemAction("example.io/mover", newMover),
//	)
//
// This project's server knows the kinds and does not use the adapters. What Velero cannot say is lost there: an
// operation that cannot be stopped looks as if it were being stopped, and in Velero's order an action runs by its name,
// before or after others. Velero sends no key for an item; the adapter makes the same one each time for the same item
// of the same backup or restore.
//
// The package imports the kinds and framework/operations. Start reading at backup.go.
package forvelero
