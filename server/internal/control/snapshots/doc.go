// Package snapshots deletes the snapshots that no backup has: those of a run that has failed, was deleted, or was
// killed and began anew. They are in the records of package volumes. Start reading at Controller.Reconcile.
package snapshots
